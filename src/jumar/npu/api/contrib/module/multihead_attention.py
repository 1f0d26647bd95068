"""Multi-head attention in one operator, in the form of fairseq's module."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from jumar.npu.api.contrib.function.matmul_transpose import matmul_transpose
from jumar.npu.api.contrib.module.ensemble_dropout import NpuCachedDropout
from jumar.npu.api.contrib.module.quant_noise import quant_noise

Tensor = torch.Tensor

__all__ = ["Matmul_transpose", "MultiheadAttention"]


def Matmul_transpose(tensor1: Tensor, tensor2: Tensor) -> Tensor:
    """Return `tensor1 @ tensor2.transpose(-2, -1)`; see `torch_npu.contrib.function.matmul_transpose`."""
    product: Tensor = matmul_transpose(tensor1, tensor2)  # type: ignore[no-untyped-call]
    return product


class _MHAConfig:
    """Whether `MultiheadAttention` computes anything; the vendor's class is off until a script turns it on."""

    use_fussion_mha = False

    @classmethod
    def set_fussion(cls) -> None:
        """Turn the fused operator on for the process."""
        cls.use_fussion_mha = True


class _NpuLinear(nn.Linear):
    def forward(self, input2: Tensor) -> Tensor:
        if input2.dim() not in (2, 3):
            raise RuntimeError("not support this dim")
        rows = input2.view(-1, self.in_features)
        result: Tensor = torch.ops.npu.npu_linear(rows, self.weight, self.bias)
        return result.view(*input2.shape[:-1], self.out_features)


class MultiheadAttention(nn.Module):
    """Projections, attention and output projection by `npu_multi_head_attention`.

    `forward` takes (batch * length, embed_dim) and the sizes beside it, and returns (None, None) unless
    `_MHAConfig.set_fussion()` was called before. `key_padding_mask` is added to the scores: (batch, num_heads,
    tgt_len, src_len). Raises ValueError for an `embed_dim` that the heads do not divide, and for
    self-attention with keys or values of another size.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.qkv_same_dim = self.kdim == embed_dim == self.vdim
        self.dropout_module = NpuCachedDropout(dropout, module_name=type(self).__name__)
        self.dropout_prob, self.use_dropout_optim = dropout, True
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise ValueError("embed_dim must be divisible by num_heads")
        self.scaling = self.head_dim**-0.5
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        if self_attention and not self.qkv_same_dim:
            raise ValueError("Self-attention requires query, key and value to be of the same size")
        self.k_proj = quant_noise(_NpuLinear(self.kdim, embed_dim, bias=bias), q_noise, qn_block_size)
        self.v_proj = quant_noise(_NpuLinear(self.vdim, embed_dim, bias=bias), q_noise, qn_block_size)
        self.q_proj = quant_noise(_NpuLinear(embed_dim, embed_dim, bias=bias), q_noise, qn_block_size)
        self.out_proj = quant_noise(_NpuLinear(embed_dim, embed_dim, bias=bias), q_noise, qn_block_size)
        self.bias_k = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.bias_v = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self.onnx_trace = self.tpu = False
        self.reset_parameters()

    def prepare_for_onnx_export_(self) -> None:
        """Note that the model is traced for ONNX."""
        self.onnx_trace = True

    def prepare_for_tpu_(self, **kwargs: Any) -> None:
        """Note that the model runs on a TPU."""
        self.tpu = True

    def reset_parameters(self) -> None:
        """Draw the weights by Xavier's rule, those of q, k and v smaller where they are of one size."""
        gain = 1 / math.sqrt(2) if self.qkv_same_dim else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                nn.init.xavier_normal_(bias)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        """Return `x` as (batch, heads, length, head size), of the sizes that the caller has set as attributes.

        They are `batch_size`, `squence_length`, `num_attention_heads` and `attention_head_size`; the module
        itself sets none of them, so AttributeError is what it raises without.
        """
        sizes: Any = self
        shape = (sizes.batch_size, sizes.squence_length, sizes.num_attention_heads, sizes.attention_head_size)
        result: Tensor = torch.ops.npu.npu_confusion_transpose(x, (0, 2, 1, 3), shape, False)
        return result

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        bsz: int,
        tgt_len: int,
        s_len: int,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the attention (bsz * tgt_len, embed_dim), and None for the weights; see the class.

        Only query, key, value, bsz, tgt_len and key_padding_mask have an effect.
        """
        if not _MHAConfig.use_fussion_mha:
            return None, None
        return self.multi_attn(query, key, value, key_padding_mask, bsz, tgt_len), None

    def multi_attn(
        self, query: Tensor, key: Any, value: Any, key_padding_mask: Tensor | None, bsz: int, tgt_len: int
    ) -> Tensor:
        """Return the attention by the fused operator."""
        src_len = key.size(0) // bsz
        dropout_mask = None
        if self.use_dropout_optim:
            shape = (bsz, self.num_heads, tgt_len, src_len)
            dropout_mask = self.dropout_module([shape, query.dtype, query.device])
        results: tuple[Tensor, ...] = torch.ops.npu.npu_multi_head_attention(
            query,
            key,
            value,
            self.q_proj.weight,
            self.k_proj.weight,
            self.v_proj.weight,
            key_padding_mask,
            self.out_proj.weight,
            self.q_proj.bias,
            self.k_proj.bias,
            self.v_proj.bias,
            self.out_proj.bias,
            dropout_mask,
            self.num_heads,
            self.head_dim,
            src_len,
            tgt_len,
            self.dropout_prob,
            True,
        )
        return results[0]

    def apply_sparse_mask(self, attn_weights: Tensor, tgt_len: int, src_len: int, bsz: int) -> Tensor:
        """Return the weights as they are; a subclass may mask them."""
        return attn_weights

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Split `in_proj_weight` and `in_proj_bias` of an old checkpoint into those of q, k and v, in place."""
        prefix = f"{name}." if name else ""
        for key in [key for key in state_dict if key.endswith(f"{prefix}in_proj_weight")]:
            parts = {"weight": state_dict.pop(key)}
            if f"{prefix}in_proj_bias" in state_dict:
                parts["bias"] = state_dict.pop(f"{prefix}in_proj_bias")
            size = parts["weight"].shape[0] // 3
            for kind, packed in parts.items():
                for position, projection in enumerate(("q_proj", "k_proj", "v_proj")):
                    start = position * size
                    state_dict[f"{prefix}{projection}.{kind}"] = packed[start : start + size]
