"""Strides: which tensors are the permutation of a contiguous one."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.tune.task import contiguous_stride


def contiguous_order(shape: Sequence[int], stride: Sequence[int]) -> tuple[int, ...] | None:
    """Return the order of dimensions in which a dense tensor is contiguous.

    None when it is contiguous as it stands, and when no order makes it so (gaps, expanded or overlapping elements):
    such a tensor must be copied. Dimensions of length 1 do not matter.
    """
    if is_contiguous(shape, stride):
        return None
    long = sorted((place for place, length in enumerate(shape) if length > 1), key=lambda place: -stride[place])
    short = [place for place, length in enumerate(shape) if length == 1]
    order = (*short, *long)
    turned = [shape[place] for place in order]
    return order if is_contiguous(turned, [stride[place] for place in order]) else None


def is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether elements lie in row-major order without gaps, whatever the strides of dimensions of length 1."""
    if 0 in shape:
        return True
    expected = contiguous_stride(tuple(shape))
    return all(length == 1 or is_ == must for length, is_, must in zip(shape, stride, expected, strict=True))


def has_overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether elements share memory, or may: a dimension steps no further than the smaller ones reach."""
    reach = 0
    for step, length in sorted((step, length) for step, length in zip(stride, shape, strict=True) if length > 1):
        if step <= reach:
            return True
        reach += (length - 1) * step
    return False
