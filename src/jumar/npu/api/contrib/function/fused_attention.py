"""Self-attention of BERT in a few operators, on matrices in FRACTAL_NZ."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.api.contrib.deprecated import warn_deprecated
from jumar.npu.formats import Format, get_npu_format

Tensor = torch.Tensor

__all__ = ["npu_fused_attention", "npu_fused_attention_with_layernorm"]

_HEAD_SIZE = 64
_HIDDEN_SIZES = (768, 1024)
_ROWS = 32
_checked: list[bool] = []
"""Not empty once a call was checked: the vendor checks the first call of a process only."""


def _check_once(hidden: Tensor, mask: Tensor, kernels: tuple[Tensor, ...], vectors: tuple[Tensor, ...]) -> None:
    """Raise RuntimeError where the operators cannot take these formats and shapes, on the first call only."""
    if _checked:
        return
    _checked.append(True)
    matrices = (hidden, mask, *kernels)
    if any(get_npu_format(matrix) is not Format.FRACTAL_NZ for matrix in matrices):
        _refuse("format")
    if any(get_npu_format(vector) is not Format.ND for vector in vectors):
        _refuse("format" if len(vectors) == len(kernels) else "gamma or beta format")
    if hidden.dim() != 2 or hidden.shape[0] % _ROWS or hidden.shape[1] not in _HIDDEN_SIZES:
        _refuse("shape of hidden_states")
    if mask.dim() != 4 or mask.shape[1] != 1 or mask.shape[2] != mask.shape[3]:
        _refuse("shape of attention_mask")
    if any(kernel.shape[0] not in _HIDDEN_SIZES for kernel in kernels):
        _refuse("shape of kernel")


def _refuse(what: str) -> None:
    raise RuntimeError(f"fused attention check compatibility failed, {what} not matches")


def _split_heads(projected: Tensor, mask: Tensor) -> Tensor:
    """Turn (batch * length, hidden) into (batch, heads, length, 64), in FRACTAL_NZ."""
    rows, hidden_size = projected.shape
    shape = (mask.shape[0], rows // mask.shape[0], hidden_size // _HEAD_SIZE, _HEAD_SIZE)
    heads = torch.ops.npu.npu_confusion_transpose(projected, (0, 2, 1, 3), shape, False)
    return _nz(heads)


def _nz(tensor: Tensor) -> Tensor:
    result: Tensor = torch.ops.npu.npu_format_cast(tensor, int(Format.FRACTAL_NZ))
    return result


def _attend(
    ctx: Any,
    kernels: tuple[Tensor, ...],
    layers: list[Tensor],
    mask: Tensor,
    options: tuple[float, float],
    *more: Tensor,
) -> Tensor:
    """Return the attention of the projected layers, and keep for the backward what it needs, `more` last."""
    context, softmax, dropout_mask = torch.ops.npu.npu_fused_attention_score_fwd(*layers, mask, *options)
    ctx.options = options
    ctx.save_for_backward(*kernels, *layers, softmax, dropout_mask, *more)
    result: Tensor = context
    return result


class _FusedAttention(torch.autograd.Function):
    """The projections are three linear operators, the attention itself is one."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_states: Tensor,
        attention_mask: Tensor,
        query_kernel: Tensor,
        key_kernel: Tensor,
        value_kernel: Tensor,
        query_bias: Tensor,
        key_bias: Tensor,
        value_bias: Tensor,
        scale: float = 1,
        keep_prob: float = 0,
    ) -> Tensor:
        kernels, biases = (query_kernel, key_kernel, value_kernel), (query_bias, key_bias, value_bias)
        _check_once(hidden_states, attention_mask, kernels, biases)
        layers = [
            _split_heads(torch.ops.npu.npu_linear(hidden_states, kernel.t(), bias), attention_mask)
            for kernel, bias in zip(kernels, biases, strict=True)
        ]
        return _attend(ctx, kernels, layers, attention_mask, (scale, keep_prob), hidden_states)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        *saved, hidden_states = ctx.saved_tensors
        grads = _gradients(ctx, saved, grad_output, hidden_states, _nz(torch.zeros_like(hidden_states)))
        return (grads[0], None, *grads[1:], None, None)


class _FusedAttentionWithLayerNorm(torch.autograd.Function):
    """The normalisation and the projections are one operator, the attention itself is another."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_states: Tensor,
        attention_mask: Tensor,
        query_kernel: Tensor,
        key_kernel: Tensor,
        value_kernel: Tensor,
        query_bias: Tensor,
        key_bias: Tensor,
        value_bias: Tensor,
        gamma: Tensor,
        beta: Tensor,
        scale: float = 1,
        keep_prob: float = 0,
    ) -> tuple[Tensor, Tensor]:
        warn_deprecated("npu_fused_attention_with_layernorm", "torch_npu.npu_fusion_attention and torch.nn.LayerNorm")
        kernels, biases = (query_kernel, key_kernel, value_kernel), (query_bias, key_bias, value_bias)
        _check_once(hidden_states, attention_mask, kernels, (*biases, gamma, beta))
        rows, hidden_size = hidden_states.shape
        norm, *layers, mean, variance = torch.ops.npu.npu_fused_attention_layernorm_qkv_fwd(
            hidden_states,
            *kernels,
            gamma,
            beta,
            *biases,
            rows // attention_mask.shape[0],
            hidden_size // _HEAD_SIZE,
        )
        more = (norm, hidden_states, mean, variance, gamma, beta)
        return _attend(ctx, kernels, layers, attention_mask, (scale, keep_prob), *more), norm

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, grad_norm: Tensor) -> tuple[Tensor | None, ...]:
        *saved, norm, hidden_states, mean, variance, gamma, beta = ctx.saved_tensors
        grad_hidden, *grads = _gradients(ctx, saved, grad_output, norm, _nz(grad_norm))
        grad_hidden, grad_gamma, grad_beta = torch.ops.npu.npu_layernorm_grad(
            grad_hidden, hidden_states, (grad_hidden.shape[1],), mean, variance, gamma, beta
        )
        return (grad_hidden, None, *grads, grad_gamma, grad_beta, None, None)


def _gradients(
    ctx: Any, saved: list[Tensor], grad_output: Tensor, projected: Tensor, grad_projected: Tensor
) -> list[Tensor]:
    """Return the gradients of what was projected, of the three kernels and of the three biases."""
    *kernels, query, key, value, softmax, dropout_mask = saved
    grads = torch.ops.npu.npu_fused_attention_score_grad(
        grad_output, softmax, query, key, value, dropout_mask, *ctx.options
    )
    result: list[Tensor] = torch.ops.npu.npu_fused_attention_qkv_grad(*grads, *kernels, projected, grad_projected)
    return result


npu_fused_attention = _FusedAttention.apply
npu_fused_attention_with_layernorm = _FusedAttentionWithLayerNorm.apply
