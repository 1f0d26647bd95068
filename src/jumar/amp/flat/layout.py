"""Where parameters lie in a flat buffer: their order, starts and strides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensor = torch.Tensor

ALIGNMENT_BYTES = 64
"""Every parameter starts at a multiple of this: tensor cores and vector units want 16 to 64."""
LARGE = 1 << 15
"""Elements from which a parameter is large. The time for one more small operation (a few us) is then below the time for
its elements, so nothing is gained by joining it with others, and much is lost by copying its gradient."""


def ordered(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return the small parameters, then the large ones, each in the given order: the small ones lie side by side."""
    return sorted(parameters, key=lambda parameter: parameter.numel() >= LARGE)


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides that a parameter has in the buffer: its own, or those of a contiguous tensor.

    Its own are kept (channels_last) if the elements fill the memory without gaps, rows of the first dimension one
    after another, so that a row is a stretch of the buffer.
    """
    shape, strides = tensor.shape, tensor.stride()
    expected = 1
    for dimension in sorted(range(tensor.dim()), key=lambda one: (strides[one], shape[one])):
        if shape[dimension] == 1:
            continue
        if strides[dimension] != expected:
            return contiguous_strides(shape)
        expected *= shape[dimension]
    if tensor.dim() and shape[0] > 1 and strides[0] * shape[0] != tensor.numel():
        return contiguous_strides(shape)
    return tuple(strides)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor of this shape."""
    strides, expected = [], 1
    for size in reversed(shape):
        strides.append(expected)
        expected *= max(size, 1)
    return tuple(reversed(strides))


def starts_of(parameters: Sequence[Tensor]) -> tuple[list[int], int]:
    """Return the element at which each parameter starts, and the length of the buffer."""
    starts, end = [], 0
    for parameter in parameters:
        step = max(1, ALIGNMENT_BYTES // parameter.element_size())
        end = -(-end // step) * step
        starts.append(end)
        end += parameter.numel()
    return starts, end


def in_memory_order(tensor: Tensor) -> Tensor:
    """Return the elements of a tensor without gaps as one dimension, in the order of the memory. Nothing is copied."""
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
