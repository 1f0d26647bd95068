"""`ExportFormat`: a file format of exported weights. `format_of` returns the one that a path's suffix names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import OutputError
from jumar.base.plugins import Group, instance_of
from jumar.export.formats.keras.reading import read_h5
from jumar.export.formats.keras.writing import write_h5
from jumar.export.formats.mindspore import open_mindspore, stream_mindspore
from jumar.export.formats.nested import leaves
from jumar.export.formats.opening import open_document
from jumar.export.formats.pytorch.writing import write_pytorch
from jumar.export.formats.safetensors import write_safetensors
from jumar.export.tensors import Deferred, held, is_tensor, same_bits

State = Mapping[str, Any]
"""Names to CPU tensors, in the order of the model. A checkpoint may hold plain values, too (`_extra_state`)."""
Wrote = Callable[[Deferred, memoryview], None]
Stream = Callable[[Path, Mapping[str, Any], Wrote], None]

NOT_WRITTEN = {
    ".keras": "a .keras file holds the model's layers, too; write a .h5 file of weights.",
    ".onnx": "an ONNX file holds the model, too; use jumar export onnx.",
    ".index": "a checkpoint of TensorFlow is not written; write a .h5 file of weights.",
    ".json": "an index of shards is not written; write one .safetensors file.",
    ".npz": "NumPy's format has no place for half of PyTorch's dtypes; write a .safetensors file.",
}
"""Suffixes of files that would not be what their name says, and what to write instead."""


def _needs_nothing(_path: Path) -> None:
    """Do nothing: the format needs no package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """How weights are written to a file and read back.

    Another distribution adds one with an entry point of the group `jumar.export_formats` that names an `ExportFormat`.
    After each export `read` is called, and the file must give the same names, shapes, dtypes and bits.
    """

    name: str
    suffixes: tuple[str, ...]
    """Of the files, lower case with their dot. No two formats share one."""
    write: Callable[[Path, State], None]
    """Writes the file; the path has a temporary name without the suffix. Raises OSError or OutputError.

    It leaves the tensors as they are."""
    read: Callable[[Path], State]
    """Reads the file; the path has a temporary name. It runs nothing that is in the file."""
    holds_values: bool = False
    """Whether the file can hold values that are no tensors. If not, a checkpoint with such values is refused."""
    require: Callable[[Path], None] = _needs_nothing
    """Raises InputError, which says what to install, when the format needs a package that is missing."""
    stream: Stream | None = None
    """Writes `Deferred` tensors a piece at a time and tells each piece; without it all tensors are in memory at once.

    Jumar's own formats have it."""
    open: Callable[[Path], Mapping[str, Any]] | None = None
    """Returns the `Deferred` tensors of a file; goes with `stream`."""


def format_of(path: Path) -> ExportFormat:
    """Return the format of the path's suffix; PyTorch's for a suffix that is none of a format.

    Raises OutputError for the suffix of a format that is not written.
    """
    suffix = path.suffix.lower()
    if suffix in PYTORCH.suffixes:
        return PYTORCH
    known = next((one for one in (*BUILT_IN, *INSTALLED.parts()) if suffix in one.suffixes), None)
    if known is None and suffix in NOT_WRITTEN:
        raise OutputError(f"{path} cannot be written: {NOT_WRITTEN[suffix]}")
    return known or PYTORCH


def write(path: Path, output: Path, state: State) -> None:
    """Write `state`, whose tensors may be `Deferred`, to the temporary `path` of `output`, and verify the file.

    Raises OutputError, also where the file does not come back bit by bit, and OSError.
    """
    known = format_of(output)
    others = [key for key, value in state.items() if not is_tensor(value)]
    if others and not known.holds_values:
        raise OutputError(f"{output.name} can hold tensors only, and {others[0]!r} is none; write a .pt file.")
    if known.stream is None or known.open is None:
        whole = {key: value.read() if isinstance(value, Deferred) else value for key, value in state.items()}
        known.write(path, whole)
        _verify_whole(whole, known.read(path), output)
        return
    # An object for each key, because the sums are kept by object.
    own = {key: replace(value) if isinstance(value, Deferred) else value for key, value in state.items()}
    sums = Sums()
    known.stream(path, own, sums.add)
    verify(own, known.open(path), sums, output)


def write_nested(path: Path, output: Path, root: Any) -> None:
    """Write a nested value of plain values and `Deferred` tensors as PyTorch's file, and verify it.

    Raises OutputError, also where it does not come back, and OSError.
    """
    sums = Sums()
    write_pytorch(path, root, sums.add)
    before, after = list(leaves(root)), list(leaves(open_document(path).root))
    if [way for way, _ in before] != [way for way, _ in after]:
        raise OutputError(f"{output} did not come back with the values that were written; check the disk.")
    for (way, value), (_, read) in zip(before, after, strict=True):
        name = ".".join(map(str, way))
        if isinstance(value, Deferred):
            same = isinstance(read, Deferred) and read.info == value.info
            same = same and digest_of(read.pieces()) == sums.of(value)
        else:
            same = read == value or (read != read and value != value)  # noqa: PLR0124 - NaN is not itself
        if not same:
            raise OutputError(f"{output} did not come back with the values of {name!r}; check the disk and memory.")


class Sums:
    """SHA-256 of every tensor that was written, of the bytes that went into the file."""

    def __init__(self) -> None:
        self._by_object: dict[int, Any] = {}
        self._by_identity: dict[Hashable, Any] = {}

    def add(self, tensor: Deferred, piece: memoryview) -> None:
        """Take a piece of a tensor."""
        found = self._by_object.get(id(tensor))
        if found is None:
            found = self._by_object[id(tensor)] = hashlib.sha256()
            self._by_identity.setdefault(tensor.identity, found)
        found.update(piece)

    def of(self, tensor: Deferred) -> bytes:
        """Return a tensor's sum, or that of the one that it is tied to."""
        found = self._by_object.get(id(tensor))
        if found is None and tensor.identity is not None:
            found = self._by_identity.get(tensor.identity)
        return bytes((found or hashlib.sha256()).digest())


def digest_of(pieces: Iterable[memoryview]) -> bytes:
    """Return the SHA-256 of a tensor's bytes."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.digest()


def verify(state: State, back: Mapping[str, Any], sums: Sums, output: Path) -> None:
    """Raise OutputError unless a file holds the same keys and bits: a full disk or bad memory must not pass."""
    if back.keys() != state.keys():
        raise OutputError(f"{output} did not come back with the keys that were written; check the disk.")
    for key, value in state.items():
        if not isinstance(value, Deferred):
            continue
        read = back[key]
        same = isinstance(read, Deferred) and read.info == value.info
        if not same or digest_of(read.pieces()) != sums.of(value):
            raise OutputError(f"{output} did not come back with the values of {key!r}; check the disk and memory.")


def _verify_whole(state: State, back: State, output: Path) -> None:
    if back.keys() != state.keys():
        raise OutputError(f"{output} did not come back with the keys that were written; check the disk.")
    for key, value in state.items():
        if isinstance(value, torch.Tensor) and not same_bits(value, torch.as_tensor(back[key])):
            raise OutputError(f"{output} did not come back with the values of {key!r}; check the disk and memory.")


def _ignore(_tensor: Deferred, _piece: memoryview) -> None:
    """Take a piece that nobody asks for."""


def _writer(stream: Stream) -> Callable[[Path, State], None]:
    def write_all(path: Path, state: State) -> None:
        made = {key: held(value) if isinstance(value, torch.Tensor) else value for key, value in state.items()}
        stream(path, made, _ignore)

    return write_all


def _root(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = open_document(path).root
    return found


def _mindspore_root(path: Path) -> Mapping[str, Any]:
    # An empty message has no first bytes to be recognised by.
    found: Mapping[str, Any] = open_mindspore(path).root
    return found


def _reader(opened: Callable[[Path], Mapping[str, Any]]) -> Callable[[Path], State]:
    def read_all(path: Path) -> State:
        return {key: value.read() if isinstance(value, Deferred) else value for key, value in opened(path).items()}

    return read_all


def _built_in(
    name: str, suffixes: tuple[str, ...], stream: Stream, opened: Callable[[Path], Mapping[str, Any]] = _root
) -> ExportFormat:
    return ExportFormat(
        name=name, suffixes=suffixes, write=_writer(stream), read=_reader(opened), stream=stream, open=opened
    )


PYTORCH = replace(_built_in("PyTorch", (".pt", ".pth", ".bin"), write_pytorch), holds_values=True)
SAFETENSORS = _built_in("safetensors", (".safetensors",), write_safetensors)
MINDSPORE = _built_in("MindSpore", (".ckpt",), stream_mindspore, _mindspore_root)
KERAS = _built_in("Keras", (".h5", ".hdf5"), write_h5, read_h5)
BUILT_IN = (PYTORCH, SAFETENSORS, MINDSPORE, KERAS)
INSTALLED: Group[ExportFormat] = Group(
    "export-format",
    instance_of(ExportFormat),
    lambda known: (known.name, *known.suffixes),
    lambda: (name for known in BUILT_IN for name in (known.name, *known.suffixes)),
)
"""The formats of other distributions."""
