"""Scaled dot-product attention by the kernel the CPU would choose.

PyTorch asks a device for its choice through a C++ table that a Python backend is not in, and then falls
back to the composed formula. Here the CPU's own choice is asked for, so that the same operator runs on
both devices and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.state import STATE
from jumar.npu.numerics import arithmetic

Tensor = torch.Tensor
_MATH, _FLASH = 0, 1
"""Of sdp::SDPBackend."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention`; shapes and semantics as in its documentation."""
    aten = torch.ops.aten
    needs_mask_gradient = attn_mask is not None and attn_mask.requires_grad
    try:
        choice = aten._fused_sdp_choice(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    except NotImplementedError:  # a kind of tensor that cannot be asked, such as a DTensor
        choice = _MATH
        if is_causal:  # the formula would make its mask a plain tensor
            attn_mask, is_causal = _causal(query, key), False
    # The choice is made for the CPU's wrapper, which from torch 2.15 on takes tensors of 3 dimensions as 4.
    if choice == _FLASH and query.dim() == 4 and not needs_mask_gradient and not _is_composed():
        mask = _additive(attn_mask, query.dtype)
        return aten._scaled_dot_product_flash_attention_for_cpu(  # type: ignore[no-any-return]
            query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale
        )[0]
    return aten._scaled_dot_product_attention_math(  # type: ignore[no-any-return]
        query, key, value, _additive(attn_mask, query.dtype), dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


def _causal(query: Tensor, key: Tensor) -> Tensor:
    """Return the causal mask (..., L, S) as the kind of tensor that the arguments are."""
    repeats = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    keys = key.repeat_interleave(repeats, -3) if repeats > 1 else key
    return torch.ones_like(query.detach() @ keys.detach().transpose(-2, -1), dtype=torch.bool).tril()


def _is_composed() -> bool:
    """Return whether the chip has no attention kernel, and PyTorch's formula with its matrix products runs."""
    return arithmetic.is_strict() and not STATE.profile.is_aclnn_default


def _additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return the mask as something to add to the scores: True becomes 0, False minus infinity."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), float("-inf"))


COMPOSITES: dict[str, Callable[..., Any]] = {"aten::scaled_dot_product_attention": attention}
"""Kernels for the autograd key: they call differentiable operators."""
