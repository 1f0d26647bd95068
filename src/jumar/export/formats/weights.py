"""`open_weights` and `write_weights`: named tensors in a file of any format, read and written one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch

from jumar.base.errors import InputError, OutputError
from jumar.base.files import check_output, explained, write_atomically
from jumar.export.find import find_state_dict
from jumar.export.formats.opening import open_document
from jumar.export.formats.registry import write
from jumar.export.tensors import Deferred, TensorInfo, Unusable, bytes_of

__all__ = ["TensorInfo", "Weights", "open_weights", "write_weights"]


class Weights(Protocol):
    """Named tensors of a file, used as a context manager."""

    @property
    def framework(self) -> str:
        """`pytorch`, `mindspore` or `tensorflow` (Keras, too): whose names and layouts the tensors have."""

    def names(self) -> Sequence[str]:
        """Return all names in the order of the file."""

    def info(self, name: str) -> TensorInfo:
        """Return shape and dtype of a tensor. Raises KeyError."""

    def read(self, name: str) -> torch.Tensor:
        """Return a tensor on the CPU, contiguous, in memory of its own. Raises KeyError, and InputError."""

    def __enter__(self) -> Weights:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the file."""


class _Opened:
    def __init__(self, framework: str, tensors: dict[str, Deferred]) -> None:
        self.framework, self._tensors = framework, tensors

    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def info(self, name: str) -> TensorInfo:
        return self._tensors[name].info

    def read(self, name: str) -> torch.Tensor:
        return self._tensors[name].read()

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._tensors = {}


def open_weights(path: Path, only: str | None = None) -> Weights:
    """Open the weights in a checkpoint: those at the dotted path `only`, else they are looked for.

    Values that are no tensors (`_extra_state`) are left out. Raises InputError for a file that cannot be used.
    """
    document = open_document(path)
    found = find_state_dict(document.root, only or document.only, path)[1]
    tensors: dict[str, Deferred] = {}
    for key, value in found.items():
        if isinstance(value, Unusable):
            value.refuse(key)
        if isinstance(value, Deferred):
            tensors[key] = value
    return _Opened(document.framework, tensors)


def write_weights(
    path: Path, tensors: Iterable[tuple[str, TensorInfo, Callable[[], torch.Tensor]]], *, force: bool
) -> None:
    """Write tensors in the format of the path's suffix, and read them back.

    Each callable is called once, when its tensor's turn comes. Two names with one and the same callable are tied where
    the format can tie them. Raises InputError where a callable gives another shape or dtype than was said, OutputError
    for a place or a dtype that cannot be written; `path` then is as it was.
    """
    check_output(path, force)
    state: dict[str, Any] = {}
    for name, info, read in tensors:
        if name in state:
            raise InputError(f"{name!r} is written twice; give each tensor its own name.")
        state[name] = Deferred(info, _pieces(name, info, read), read)
    with explained(path, "choose a place you can write to"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda part: write(part, path, state))


def _pieces(name: str, info: TensorInfo, read: Callable[[], torch.Tensor]) -> Callable[[], Iterator[memoryview]]:
    def pieces() -> Iterator[memoryview]:
        tensor = read()
        if tuple(tensor.shape) != info.shape or tensor.dtype != info.dtype:
            made = f"{tuple(tensor.shape)} {tensor.dtype}"
            raise OutputError(f"{name!r} was to be {info.shape} {info.dtype} and is {made}; mend what makes it.")
        yield bytes_of(tensor.detach().cpu().contiguous())

    return pieces
