"""`open_bundle`: a checkpoint of TensorFlow, `NAME.index` beside `NAME.data-00000-of-00001`, as a `Document`.

The index is a table of messages (tensorflow/core/protobuf/tensor_bundle.proto): under the empty key `BundleHeaderProto
{ num_shards = 1; endianness = 2; }`, under each name `BundleEntryProto { dtype = 1; TensorShapeProto shape = 2;
shard_id = 3; offset = 4; size = 5; fixed32 crc32c = 6; slices = 7; }`, where a shape is
`TensorShapeProto { Dim { size = 1 } dim = 2; }`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import InputError
from jumar.export.formats.document import Document, damaged
from jumar.export.formats.tensorflow.crc32c import crc32c, unmasked
from jumar.export.formats.tensorflow.names import OBJECT_GRAPH, is_training, readable
from jumar.export.formats.tensorflow.objects import object_names
from jumar.export.formats.tensorflow.slices import Slice, key_of, slice_of
from jumar.export.formats.tensorflow.table import read_table
from jumar.export.formats.tensorflow.wire import fields, varint
from jumar.export.tensors import Deferred, TensorInfo, bytes_of, file_pieces

_WHAT = "TensorFlow checkpoint"
_MOST_INDEX_BYTES = 1 << 30
_STRING = 7
_DTYPES = {
    1: torch.float32, 2: torch.float64, 3: torch.int32, 4: torch.uint8, 5: torch.int16, 6: torch.int8,
    8: torch.complex64, 9: torch.int64, 10: torch.bool, 14: torch.bfloat16, 17: torch.uint16, 18: torch.complex128,
    19: torch.float16, 22: torch.uint32, 23: torch.uint64, 24: torch.float8_e5m2, 25: torch.float8_e4m3fn,
}  # fmt: skip
"""Numbers of `DataType` (tensorflow/core/framework/types.proto)."""


@dataclass(frozen=True, slots=True)
class _Entry:
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    slices: tuple[Slice, ...]


def open_bundle(path: Path) -> Document:
    """Return the tensors of a checkpoint: the model's under `weights`, an optimizer's and counters under `training`.

    `path` is the index. Names end without `/.ATTRIBUTES/VARIABLE_VALUE`. Raises InputError where a file is missing or
    damaged.
    """
    if path.stat().st_size > _MOST_INDEX_BYTES:
        raise InputError(damaged(path, "its index is far too large", _WHAT))
    try:
        table = read_table(path.read_bytes())
        num_shards = _header(table.pop(b"", b""))
        parts = {key: _entry(value) for key, value in table.items() if key.startswith(b"\0")}
        entries = {key.decode("utf-8"): _entry(value) for key, value in table.items() if not key.startswith(b"\0")}
        names = _names(path, entries.pop(OBJECT_GRAPH, None), num_shards)
        file = _File(path, num_shards, parts)
        weights: dict[str, Any] = {}
        training: dict[str, Any] = {}
        for key, entry in entries.items():
            if entry.dtype == _STRING:
                continue
            is_weight = key in names if names else not is_training(key, entries)
            group, name = (weights, names.get(key, readable(key))) if is_weight else (training, readable(key))
            if name in group:
                raise ValueError(f"two tensors are named {name!r}")
            group[name] = file.joined(key, entry) if entry.slices else file.tensor(key, entry)
    except (ValueError, OverflowError, UnicodeDecodeError) as error:
        raise InputError(damaged(path, error, _WHAT)) from error
    if not weights:
        raise InputError(f"{path} holds no variable of a model; save one with tf.train.Checkpoint(model=model).")
    root = {"weights": weights, "training": training} if training else weights
    return Document(root, "tensorflow", "TensorFlow", "weights" if training else None)


def _names(path: Path, entry: _Entry | None, num_shards: int) -> dict[str, str]:
    """Return the names of the model's variables by key, from the graph of objects; nothing without one."""
    if entry is None or entry.dtype != _STRING or entry.shape or entry.size > _MOST_INDEX_BYTES:
        return {}
    file = _File(path, num_shards, {})
    data = b"".join(bytes(piece) for piece in file_pieces(file.data(entry, "the graph"), entry.offset, entry.size))
    length, at = varint(data, 0)
    # The lengths of the texts, a checksum of them, and the texts.
    if at + 4 + length != len(data):
        raise ValueError("its graph of objects is cut short")
    return object_names(data[at + 4 :])


def _header(data: bytes) -> int:
    """Return the number of data files. Raises ValueError."""
    told = dict(fields(data))
    number = told.get(1, 0)
    if told.get(2, 0) != 0:
        raise ValueError("a big-endian machine wrote it")
    if not isinstance(number, int) or not 1 <= number < 100_000:
        raise ValueError("it has no header")
    return number


def _entry(data: bytes) -> _Entry:
    numbers = dict.fromkeys((1, 3, 4, 5, 6), 0)
    shape: tuple[int, ...] = ()
    slices: list[Slice] = []
    for number, value in fields(data):
        if number == 2 and isinstance(value, bytes):
            shape = tuple(_shape(value))
        elif number == 7 and isinstance(value, bytes):
            slices.append(slice_of(value))
        elif number in numbers and isinstance(value, int):
            numbers[number] = value
    return _Entry(numbers[1], shape, numbers[3], numbers[4], numbers[5], numbers[6], tuple(slices))


def _shape(data: bytes) -> Iterator[int]:
    for number, value in fields(data):
        if number == 2 and isinstance(value, bytes):
            size = dict(fields(value)).get(1, 0)
            if not isinstance(size, int) or size >= 1 << 62:
                raise ValueError("a shape that is none")
            yield size


@dataclass(frozen=True, slots=True)
class _File:
    """The data files of an index."""

    index: Path
    num_shards: int
    parts: Mapping[bytes, _Entry]
    """Entries of slices."""

    def data(self, entry: _Entry, key: str) -> Path:
        """Return the data file of an entry. Raises InputError where it is missing or too short."""
        name = f"{self.index.name.removesuffix('.index')}.data-{entry.shard:05d}-of-{self.num_shards:05d}"
        file = self.index.with_name(name)
        if entry.shard >= self.num_shards:
            raise ValueError(f"{key!r} is in a file that there is not")
        if not file.is_file():
            raise InputError(f"{self.index} needs {name}, which is missing; copy it into the same folder.")
        if entry.offset + entry.size > file.stat().st_size:
            raise InputError(damaged(file, f"{key!r} reaches beyond its end", _WHAT))
        return file

    def tensor(self, key: str, entry: _Entry) -> Deferred:
        """Return a whole tensor."""
        info = self._info(key, entry)
        if entry.size != info.size_bytes:
            raise ValueError(f"{key!r} has another size than its shape")
        data = self.data(entry, key)

        def pieces() -> Iterator[memoryview]:
            crc = 0
            for piece in file_pieces(data, entry.offset, entry.size):
                crc = crc32c([piece], crc)
                yield piece
            if crc != unmasked(entry.crc):
                raise InputError(damaged(data, f"the checksum of {key!r} is another", _WHAT))

        return Deferred(info, pieces)

    def joined(self, key: str, entry: _Entry) -> Deferred:
        """Return a tensor that is stored in slices."""
        info = self._info(key, entry)
        boxes: list[tuple[tuple[slice, ...], Deferred]] = []
        for part in entry.slices:
            stored = self.parts.get(key_of(key, part))
            box = part.within(info.shape)
            if stored is None or stored.shape != tuple(side.stop - side.start for side in box):
                raise ValueError(f"a slice of {key!r} is missing")
            boxes.append((box, self.tensor(key, stored)))
        if sum(part.info.num_values for _, part in boxes) != info.num_values:
            raise ValueError(f"the slices of {key!r} do not make it up")

        def pieces() -> Iterator[memoryview]:
            whole = torch.zeros(info.shape, dtype=info.dtype)
            for box, part in boxes:
                whole[box] = part.read()
            yield bytes_of(whole)

        return Deferred(info, pieces)

    def _info(self, key: str, entry: _Entry) -> TensorInfo:
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None:
            told = f"has {key!r} of type {entry.dtype}, which PyTorch has not; save it without it."
            raise InputError(f"{self.index} {told}")
        return TensorInfo(entry.shape, dtype)
