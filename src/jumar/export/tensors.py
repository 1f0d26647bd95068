"""`Deferred`: a tensor that lies in a file and is read when it is asked for, a piece at a time or whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from jumar.base.errors import InputError

PIECE_BYTES = 8 << 20
"""So many bytes of a tensor are read and written at a time."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_values(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements without gaps."""
        return self.num_values * self.dtype.itemsize


Pieces = Callable[[], Iterator[memoryview]]
"""Gives a tensor's bytes in order of the elements (the last dimension fastest), little-endian, in pieces of any size. A
piece is valid until the next one is asked for."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A tensor in a file."""

    info: TensorInfo
    pieces: Pieces
    """Raises InputError where the file is damaged."""
    identity: Hashable = None
    """Two tensors of one file with the same identity are one tensor (tied weights); None: it is like no other."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.info.shape

    @property
    def dtype(self) -> torch.dtype:
        """The tensor's dtype."""
        return self.info.dtype

    def read(self) -> torch.Tensor:
        """Return the values: on the CPU, contiguous, in memory of their own. Raises InputError."""
        tensor = torch.empty(self.info.shape, dtype=self.info.dtype)
        into, at = bytes_of(tensor), 0
        for piece in self.pieces():
            if at + len(piece) > len(into):
                raise InputError("a tensor has more bytes in its file than its shape says; copy the file again.")
            into[at : at + len(piece)] = piece
            at += len(piece)
        if at != len(into):
            raise InputError(f"a tensor of {len(into):,} bytes has {at:,} in its file; copy the file again.")
        return tensor


@dataclass(frozen=True, slots=True)
class Unusable:
    """A tensor of a file that has no plain values. `problem` ends the sentence "KEY …"."""

    problem: str
    shape: tuple[int, ...] = ()

    def refuse(self, key: str) -> NoReturn:
        """Raise InputError for the tensor named `key`."""
        raise InputError(f"{key!r} {self.problem}")


def not_dense(kind: str, remedy: str = "to_dense()") -> Unusable:
    """Return what stands for a tensor of another layout."""
    return Unusable(f"must be a dense tensor, and it is {kind}; save it with {remedy}, or leave it out.")


NO_VALUES = Unusable("has no values, because it was saved from the device meta; save the loaded model.")


def is_tensor(value: Any) -> bool:
    """Return whether a value of a checkpoint stands for a tensor."""
    return isinstance(value, (torch.Tensor, Deferred, Unusable))


def held(tensor: torch.Tensor) -> Deferred:
    """Return a CPU tensor that is in memory already as a `Deferred`. It is not copied until it is read."""

    def pieces() -> Iterator[memoryview]:
        yield bytes_of(tensor.detach().resolve_conj().resolve_neg().contiguous())

    told = TensorInfo(tuple(tensor.shape), tensor.dtype)
    where = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()) if tensor.numel() else None
    return Deferred(told, pieces, where)


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous CPU tensor as bytes; writing to it changes the tensor."""
    if tensor.numel() == 0:
        return memoryview(bytearray())
    view: memoryview = tensor.detach().reshape(-1).view(torch.uint8).numpy().data
    return view


def file_pieces(path: Path, offset: int, size: int) -> Iterator[memoryview]:
    """Yield `size` bytes of a file from `offset` on. Raises InputError where they are not there."""
    buffer = memoryview(bytearray(min(size, PIECE_BYTES)))
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            while size:
                count = file.readinto(buffer[: min(size, len(buffer))])
                if not count:
                    raise InputError(f"{path} is cut short: {size:,} bytes of a tensor are missing; copy it again.")
                yield buffer[:count]
                size -= count
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); check its permissions.") from error


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two CPU tensors have the same dtype, shape and bits (NaN equal to the same NaN)."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.numel() == 0:
        return True
    return torch.equal(_flat(left), _flat(right))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
