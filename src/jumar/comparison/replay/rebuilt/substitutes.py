"""Computes with CPU tensors what operators of accelerators compute.

Each takes the operator's arguments by the names of its schema and returns its outputs in order, None for one
that is not a result of the calculation (a seed, a workspace). They use nothing but torch: `jumar repro` copies
their source into the scripts it writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

Substitute = Callable[..., tuple[Any, ...]]


def convolution(**a: Any) -> tuple[Any, ...]:
    """`aten::convolution_overrideable`."""
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
    return (torch.ops.aten.convolution.default(*(a[name] for name in names)),)


def convolution_backward(**a: Any) -> tuple[Any, ...]:
    """`aten::convolution_backward_overrideable`."""
    weight = a["weight"]
    size = weight.shape[1] * a["groups"] if a["transposed"] else weight.shape[0]
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups", "output_mask")
    return torch.ops.aten.convolution_backward.default(  # type: ignore[no-any-return]
        a["grad_output"], a["input"], weight, [size], *(a[name] for name in names)
    )


def batch_norm(**a: Any) -> tuple[Any, ...]:
    """`aten::cudnn_batch_norm`, `aten::miopen_batch_norm`."""
    training = a["training"]
    out, mean, inverse = torch.ops.aten.native_batch_norm.default(
        a["input"],
        a["weight"],
        a["bias"],
        a["running_mean"],
        a["running_var"],
        training,
        a["exponential_average_factor"],
        a["epsilon"],
    )
    return (out, mean, inverse, None) if training else (out, None, None, None)


def batch_norm_backward(**a: Any) -> tuple[Any, ...]:
    """`aten::cudnn_batch_norm_backward`, `aten::miopen_batch_norm_backward`."""
    names = ("grad_output", "input", "weight", "running_mean", "running_var", "save_mean", "save_var")
    return torch.ops.aten.native_batch_norm_backward.default(  # type: ignore[no-any-return]
        *(a[name] for name in names), True, a["epsilon"], [True, True, True]
    )


def attention(**a: Any) -> tuple[Any, ...]:
    """Scaled dot-product attention of any back end: output and the logarithm of the sums (batch, heads, queries)."""
    query, key, value, bias = a["query"], a["key"], a["value"], a.get("attn_bias", a.get("attn_mask"))
    if key.shape[-3] != query.shape[-3]:  # grouped queries: each key serves several heads
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scale = a.get("scale")
    scores = (query @ key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores.masked_fill(~bias, float("-inf")) if bias.dtype is torch.bool else scores + bias
    if a.get("is_causal"):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1)


def attention_backward(**a: Any) -> tuple[Any, ...]:
    """The gradients of `attention`: query, key, value and, where there is one, the bias."""
    names = [name for name in ("query", "key", "value", "attn_bias") if a.get(name) is not None]
    with torch.enable_grad():
        leaves = {name: a[name].detach().requires_grad_() for name in names}
        out, _ = attention(**{**a, **leaves})
        gradient = a["grad_out"] if "grad_out" in a else a["grad_out_"]
        return torch.autograd.grad(out, list(leaves.values()), gradient, allow_unused=True)


_ATTENTIONS = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")

SUBSTITUTES: dict[str, Substitute] = {
    "aten::convolution_overrideable": convolution,
    "aten::convolution_backward_overrideable": convolution_backward,
    **{f"aten::{library}_batch_norm": batch_norm for library in ("cudnn", "miopen")},
    **{f"aten::{library}_batch_norm_backward": batch_norm_backward for library in ("cudnn", "miopen")},
    **{f"aten::_scaled_dot_product_{name}": attention for name in _ATTENTIONS},
    **{f"aten::_scaled_dot_product_{name}_backward": attention_backward for name in _ATTENTIONS},
}
"""Operator to what computes it on a CPU."""


def source_of(substitute: Substitute) -> str:
    """Return the source of a substitute and of what it calls, for a script of its own."""
    functions = [attention, substitute] if substitute is attention_backward else [substitute]
    return "\n\n".join(
        inspect.getsource(function).replace("  # type: ignore[no-any-return]", "") for function in functions
    )
