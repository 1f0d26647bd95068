"""How large numbers are, and how far they are from others, computed in float64 and piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import torch

PIECE = 1 << 20
"""Elements that are compared at once."""


def greatest(values: torch.Tensor, exact: torch.Tensor | None = None) -> float:
    """Return the greatest absolute value, or difference from `exact`; 0 of nothing, NaN where there is one."""
    if not values.numel():
        return 0.0
    if exact is None:
        found = [piece.abs().max().to(torch.float64) for (piece,) in _in_pieces(values)]
    else:
        found = [difference.abs_().max() for difference in _differences(values, exact)]
    return torch.stack(found).max().item()


def length(values: torch.Tensor, exact: torch.Tensor | None = None) -> float:
    """Return the root of the sum of squares of the values, or of their differences from `exact`."""
    if not values.numel():
        return 0.0
    pieces = (piece.to(torch.float64) for (piece,) in _in_pieces(values))
    found = [torch.linalg.vector_norm(one) for one in (pieces if exact is None else _differences(values, exact))]
    whole: float = torch.linalg.vector_norm(torch.stack(found)).item()
    return whole


def is_finite(tensor: torch.Tensor) -> bool:
    """Tell whether no element is NaN or infinite."""
    return all(bool(torch.isfinite(piece).all()) for (piece,) in _in_pieces(tensor))


def is_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors are equal, NaN being equal to NaN."""
    if left.is_complex():
        left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
    if not left.is_floating_point():
        return torch.equal(left, right)
    return all(
        torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())
        for one, other in _in_pieces(left, right)
    )


def _differences(values: torch.Tensor, exact: torch.Tensor) -> Iterator[torch.Tensor]:
    for one, other in _in_pieces(values, exact):
        yield one.to(torch.float64) - other.to(torch.float64)


def _in_pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield tensors of one shape piece by piece.

    NOTE: temporary tensors of a piece stay in the caches and in the heap; those of a whole 85 MB output are mapped
    and faulted in afresh each, which took most of a comparison's time.
    """
    if tensors[0].numel() <= PIECE or not all(tensor.is_contiguous() for tensor in tensors):
        yield tensors
        return
    yield from zip(*(torch.split(tensor.view(-1), PIECE) for tensor in tensors), strict=True)
