"""Sums over the pieces of a run: one operator for all of them, however many they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.amp.flat.run import Piece, Run

Tensor = torch.Tensor

_WITH_SEGMENTS = ("cpu", "cuda")
"""Devices with operators over segments."""


def lengths_of(run: Run) -> Tensor:
    """Return the lengths of the pieces and of the gaps after them, 1-D int64, alternating; they fill the run."""
    if "lengths" not in run.kept:
        run.kept["lengths"] = torch.tensor(_with_gaps(run.pieces, run.parameter.numel()), device=run.parameter.device)
    return run.kept["lengths"]


def _with_gaps(pieces: Sequence[Piece], end: int) -> list[int]:
    starts = [piece.start for piece in pieces] + [end]
    return [
        length
        for piece, following in zip(pieces, starts[1:], strict=True)
        for length in (piece.length, following - piece.start - piece.length)
    ]


def norms(run: Run, values: Tensor) -> Tensor:
    """Return the Euclidean norm of each piece of `values`, which lie as the run does: 1-D, float32 or wider."""
    wide = torch.promote_types(values.dtype, torch.float32)
    if len(run.pieces) == 1:
        whole: Tensor = torch.linalg.vector_norm(values[: run.pieces[0].length], dtype=wide)
        return whole.view(1)
    if values.device.type in _WITH_SEGMENTS:
        squares = values.to(wide).square()
        sums = torch.segment_reduce(squares, "sum", lengths=lengths_of(run), unsafe=True)
        found: Tensor = sums[::2].sqrt()
        return found
    pieces = [values[start : start + length] for start, length, _ in run.pieces]
    return torch.stack([torch.linalg.vector_norm(piece, dtype=wide) for piece in pieces])


def spread(run: Run, of_pieces: Tensor) -> Tensor:
    """Return a value for each element of the run: that of its piece (of the one before in the gaps)."""
    if len(run.pieces) == 1:
        return of_pieces.to(run.parameter.dtype).expand(run.parameter.numel())
    if run.parameter.device.type not in _WITH_SEGMENTS:
        values = torch.empty_like(run.parameter)
        for (start, length, _), value in zip(run.pieces, of_pieces.unbind(), strict=True):
            values[start : start + length].copy_(value)
        return values
    if "piece_of" not in run.kept:
        lengths = lengths_of(run)
        positions = torch.arange(len(run.pieces), device=lengths.device).repeat_interleave(2)
        run.kept["piece_of"] = positions.repeat_interleave(lengths)
    return torch.index_select(of_pieces.to(run.parameter.dtype), 0, run.kept["piece_of"])
