"""Dropout with a mask of bits or bytes.

A bit mask holds one bit an element, the lowest bit of a byte first, in bytes for a multiple of 128 elements;
a byte mask holds 0 or 1 for each element. 1 keeps the element, which is then divided by the probability to keep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect
from jumar.npu.ops.mechanism.composite import call, composite
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, shared

Tensor = torch.Tensor
_ALIGNED_TO = 128
"""Elements that a bit mask is rounded up to."""


def num_mask_bytes(num_elements: int) -> int:
    """Return how many bytes the bit mask of so many elements has."""
    return -(-num_elements // _ALIGNED_TO) * _ALIGNED_TO // 8


def random_bits(num_elements: int, p: float, device: torch.device) -> Tensor:
    """Return a random bit mask that drops elements with probability p. It draws from PyTorch's default generator."""
    kept = torch.rand(num_mask_bytes(num_elements) * 8, device=device) >= p
    return pack_bits(kept)


def pack_bits(kept: Tensor) -> Tensor:
    """Return booleans, a multiple of 8 of them, as bytes: the first is the lowest bit."""
    weights = 2 ** torch.arange(8, device=kept.device)
    return (kept.reshape(-1, 8).long() * weights).sum(1).to(torch.uint8)


def unpack_bits(mask: Tensor, num: int) -> Tensor:
    """Return the first `num` bits of bytes as booleans."""
    shifts = torch.arange(8, dtype=torch.uint8, device=mask.device)
    return (mask.reshape(-1, 1).bitwise_right_shift(shifts) & 1).reshape(-1)[:num].bool()


def keep(x: Tensor, kept: Tensor, p: float) -> Tensor:
    """Return x where `kept`, divided by the probability to keep; 0 elsewhere, and everywhere when p is 1."""
    scale = 0.0 if p >= 1 else 1 / (1 - p)
    return torch.where(kept.reshape(x.shape), x * scale, torch.zeros_like(x))


def _check(x: Tensor, p: float) -> None:
    expect(x.is_floating_point(), "dropout", "the tensor must be of floating point", x.dtype)
    expect(0 <= p <= 1, "dropout", "the probability must be from 0 to 1", p)


@implements("_npu_dropout", outputs=(0,), backward="npu_dropout_backward")
def dropout(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Dropout with probability p: the result and the bit mask that was drawn."""
    _check(x, p)
    mask = random_bits(x.numel(), p, x.device)
    return _by_bits(x, mask, p), mask


def _by_bits(x: Tensor, mask: Tensor, p: float) -> Tensor:
    return keep(x, unpack_bits(mask, x.numel()), p)


@implements("npu_dropout_do_mask", outputs=(0,), backward="npu_dropout_backward")
def dropout_do_mask(x: Tensor, mask: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Dropout by a bit mask that is given."""
    _check(x, p)
    needed = -(-x.numel() // 8)
    rule = f"the bit mask of {x.numel()} elements must have at least {needed} bytes"
    expect(mask.numel() >= needed, "npu_dropout_do_mask", rule, mask.numel())
    return _by_bits(x, mask, p), mask


@implements("npu_dropout_backward", differentiable=False)
def dropout_backward(grad: Tensor, mask: Tensor, p: float) -> Tensor:
    """The gradient by the bit mask of the forward pass."""
    _check(grad, p)
    return _by_bits(grad, mask, p)


@derivative("_npu_dropout", "npu_dropout_do_mask", reads_results=True)
def _dropout_gradient(step: Step) -> Mapping[str, Any]:
    return {"self": torch.ops.npu.npu_dropout_backward(step.gradients[0], step.results[1], step.arguments["p"])}


@implements("npu_dropout_gen_mask", differentiable=False)
def dropout_gen_mask(
    size: Sequence[int],
    p: float,
    *,
    dtype: torch.dtype | None,
    layout: torch.layout | None,
    device: torch.device | None,
    pin_memory: bool | None,
) -> Tensor:
    """Draw a bit mask for a tensor of this size. `dtype` is the dropped tensor's; the mask is uint8."""
    del dtype, layout, pin_memory
    return random_bits(math.prod(size), p, device or torch.device("cpu"))


@implements("_npu_dropout_gen_mask.Tensor", differentiable=False)
def dropout_gen_mask_seeded(
    x: Tensor, size: Sequence[int], p: float, seed: int, offset: int, *, parallel: bool | None, sync: bool | None
) -> Tensor:
    """Draw the bit mask of a seed and an offset. A device draws other bits from them."""
    del parallel, sync
    num = math.prod(size)
    if x.is_meta:
        return random_bits(num, p, x.device)
    generator = torch.Generator().manual_seed(hash((seed, offset)) & (2**63 - 1))
    return pack_bits(torch.rand(num_mask_bytes(num) * 8, generator=generator) >= p)


def random_bytes(x: Tensor, p: float) -> Tensor:
    """Return a random byte mask shaped like x that drops with probability p."""
    return (torch.rand(x.shape, device=x.device) >= p).to(torch.uint8)


@implements("_dropout_with_byte_mask", outputs=(0,))
def dropout_byte_mask(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Dropout with probability p: the result and the byte mask that was drawn."""
    _check(x, p)
    mask = random_bytes(x, p)
    return keep(x, mask.bool(), p), mask


@implements("_dropout_with_byte_mask_backward", differentiable=False)
def dropout_byte_mask_backward(grad: Tensor, mask: Tensor, p: float) -> Tensor:
    """The gradient by the byte mask of the forward pass."""
    return keep(grad, mask.bool(), p)


@derivative("_dropout_with_byte_mask", reads_results=True)
def _byte_mask_gradient(step: Step) -> Mapping[str, Any]:
    operator = torch.ops.npu._dropout_with_byte_mask_backward
    return {"self": operator(step.gradients[0], step.results[1], step.arguments["p"])}


@composite("dropout_with_byte_mask")
def dropout_with_byte_mask(x: Tensor, p: float, train: bool) -> Tensor:
    """Dropout by a byte mask in training, and the tensor itself otherwise."""
    if p == 0 or not train or not x.numel():
        return x
    return x * 0 if p == 1 else call("_dropout_with_byte_mask", x, p)[0]


@implements("npu_dropout_with_add_softmax", outputs=(2,))
def dropout_with_add_softmax(
    x: Tensor, x1: Tensor, alpha: float, prob: float, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax of `x1 + alpha * x`, then dropout: the byte mask (flat), the softmax, the result."""
    _check(x, prob)
    softmax = torch.softmax(x1 + alpha * x, dim)
    mask = random_bytes(softmax, prob)
    flat = mask.new_ones(num_mask_bytes(mask.numel()) * 8)
    flat[: mask.numel()] = mask.flatten()
    return flat, softmax, keep(softmax, mask.bool(), prob)


@implements("npu_dropout_with_add_softmax_backward", differentiable=False)
def dropout_with_add_softmax_backward(
    grad: Tensor, mask: Tensor, softmax: Tensor, alpha: float, prob: float, dim: int
) -> tuple[Tensor, Tensor]:
    """Gradients of `x` (times alpha) and of `x1`."""
    by_softmax = keep(grad, mask[: grad.numel()].bool(), prob)
    by_sum = softmax * (by_softmax - (by_softmax * softmax).sum(dim, keepdim=True))
    return by_sum * alpha, by_sum


@derivative("npu_dropout_with_add_softmax", reads_results=True)
def _add_softmax_gradients(step: Step) -> Mapping[str, Any]:
    mask, softmax, _ = step.results
    name = "npu_dropout_with_add_softmax_backward"
    found = shared(step, name, grad=step.gradients[2], mask=mask, softmax_out=softmax)
    return dict(zip(("self", "x1"), found, strict=True))
