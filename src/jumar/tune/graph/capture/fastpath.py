"""PyTorch's fast path for encoder layers, written as the ordinary operators that it stands for.

`torch.compile` records an encoder layer in inference as one operator, `torch.export` as many. One model must be one
graph, and engines know the ordinary ones.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.nn import functional as F

_BY_PADDING = 1
"""The mask names keys that are left out; any other is added to the scores."""


def without_fast_path(module: fx.GraphModule) -> fx.GraphModule:
    """Return the module with ordinary operators; the module itself where it has no fast path."""
    if not any(node.target in _ORDINARY or _stands_for_fast_path(node) for node in module.graph.nodes):
        return module
    made = fx.GraphModule(module, copy.deepcopy(module.graph))
    for node in list(made.graph.nodes):
        if node.target in _ORDINARY:
            node.target = _ORDINARY[node.target]
        elif _stands_for_fast_path(node):
            node.replace_all_uses_with(node.args[0])
            made.graph.erase_node(node)
    made.recompile()
    return made


def _stands_for_fast_path(node: fx.Node) -> bool:
    """Tell whether a node makes contiguous what attention returns.

    `nn.MultiheadAttention` does so where TorchDynamo keeps it from its fast path, and only there. What the module
    itself returns keeps its strides.
    """
    chain = [node]
    while len(chain) < 4 and chain[-1].args and isinstance(chain[-1].args[0], fx.Node):
        chain.append(chain[-1].args[0])
    return (
        [one.target for one in chain] == ["contiguous", "transpose", operator.getitem, F.multi_head_attention_forward]
        and chain[0].op == chain[1].op == "call_method"
        and all(user.op != "output" for user in node.users)
    )


def _layer(
    src: torch.Tensor, embed_dim: int, num_heads: int, qkv_weight: torch.Tensor, qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor, proj_bias: torch.Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm_weight_1: torch.Tensor, norm_bias_1: torch.Tensor, norm_weight_2: torch.Tensor, norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor, ffn_bias_1: torch.Tensor, ffn_weight_2: torch.Tensor, ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None, mask_type: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """`torch._transformer_encoder_layer_fwd`, as `nn.TransformerEncoderLayer` computes it otherwise."""

    def attend(x: torch.Tensor) -> torch.Tensor:
        return _attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]  # fmt: skip

    def feed(x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    def first(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attend(first(src))
        return src + feed(second(src))
    src = first(src + attend(src))
    return second(src + feed(src))


def _attention(
    query: torch.Tensor, _key: torch.Tensor, _value: torch.Tensor, embed_dim: int, num_head: int,
    qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor, proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
    """`torch._native_multi_head_attention`, as `nn.MultiheadAttention` computes it otherwise. It is self-attention."""
    turned = query.transpose(1, 0)
    length, batch = turned.shape[:2]
    added = None if mask is None or mask_type == _BY_PADDING else mask
    if added is not None and added.dim() == 4:
        added = added.expand(batch, num_head, length, length).reshape(batch * num_head, length, length)
    made, weights = F.multi_head_attention_forward(
        turned, turned, turned, embed_dim, num_head, qkv_weight, qkv_bias, None, None, False, 0.0, proj_weight,
        proj_bias, training=False, key_padding_mask=mask if mask_type == _BY_PADDING else None,
        need_weights=need_weights, attn_mask=added, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return made.transpose(1, 0), weights


_ORDINARY: dict[Any, Callable[..., Any]] = {
    torch._transformer_encoder_layer_fwd: _layer,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _layer,
    torch._native_multi_head_attention: _attention,
    torch.ops.aten._native_multi_head_attention.default: _attention,
}
