"""`converted`: tensors of a checkpoint in another dtype, a piece at a time, with the values that became infinite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from jumar.export.options import DTYPES
from jumar.export.tensors import Deferred, TensorInfo, Unusable, bytes_of

STEP = 1 << 15
"""So many values are converted at a time: PyTorch gives no more to one thread, and waiting for others costs more than
the conversion on a machine that is busy."""


@dataclass(slots=True, kw_only=True)
class Overflow:
    """A tensor, and how many of its finite values the wanted dtype cannot hold."""

    key: str
    num_values: int = 0
    greatest: float = 0.0
    """Greatest absolute finite value before the conversion."""


@dataclass(slots=True)
class Converted:
    """A state with floating tensors in another dtype. `overflows` is complete when the state has been written."""

    state: dict[str, Any]
    overflows: list[Overflow] = field(default_factory=list)


def converted(state: Mapping[str, Any], dtype: str | None) -> Converted:
    """Return the state with floating tensors as `dtype` (a name of `DTYPES`, None: as they are).

    Tensors that were one (tied weights) stay one. Raises InputError for a tensor that has no values, is not dense, or
    stands for far more values than are stored.
    """
    wanted: torch.dtype | None = getattr(torch, DTYPES[dtype]) if dtype else None
    result = Converted({})
    counted: set[Any] = set()
    for key, value in state.items():
        if isinstance(value, Unusable):
            value.refuse(key)
        if not isinstance(value, Deferred) or wanted in {None, value.dtype} or not value.dtype.is_floating_point:
            result.state[key] = value
            continue
        assert wanted is not None
        overflow = Overflow(key=key)
        if value.identity is None or value.identity not in counted:
            counted.add(value.identity)
            result.overflows.append(overflow)
        identity = None if value.identity is None else (value.identity, wanted)
        result.state[key] = Deferred(TensorInfo(value.shape, wanted), _Narrowed(value, wanted, overflow), identity)
    return result


@dataclass(frozen=True, slots=True)
class _Narrowed:
    source: Deferred
    dtype: torch.dtype
    overflow: Overflow

    def __call__(self) -> Iterator[memoryview]:
        self.overflow.num_values, self.overflow.greatest = 0, 0.0
        # Two buffers for all steps: new ones for each piece left gaps in the heap that grew with the file.
        before = torch.empty(STEP, dtype=self.source.dtype)
        after = torch.empty(STEP, dtype=self.dtype)
        into, out = bytes_of(before), bytes_of(after)
        for piece in _steps(self.source, len(into)):
            number = len(piece) // self.source.dtype.itemsize
            into[: len(piece)] = piece
            after[:number].copy_(before[:number])
            self._note(before[:number], after[:number])
            yield out[: number * self.dtype.itemsize]

    def _note(self, before: torch.Tensor, after: torch.Tensor) -> None:
        if not bool(torch.isinf(after).any()):
            return  # nothing became infinite: the usual case
        lost = torch.isfinite(before.float() if before.dtype.itemsize == 1 else before) & ~torch.isfinite(after)
        number = int(lost.sum())
        if number:
            self.overflow.num_values += number
            self.overflow.greatest = max(self.overflow.greatest, float(before[lost].double().abs().max()))


def _steps(tensor: Deferred, size: int) -> Iterator[memoryview | bytes]:
    """Yield a tensor's bytes in parts of at most `size`, none of which ends within an element."""
    item, rest = tensor.dtype.itemsize, b""
    for whole in tensor.pieces():
        piece: memoryview | bytes = whole
        if rest or len(whole) % item:
            data = rest + bytes(whole)
            end = len(data) - len(data) % item
            piece, rest = data[:end], data[end:]
        for start in range(0, len(piece), size):
            yield piece[start : start + size]
