"""Reads MindSpore's `.ckpt`, a protobuf message of named tensors, without protobuf.

The message (MindSpore's checkpoint.proto): `Checkpoint { repeated Value value = 1; }`,
`Value { string tag = 1; TensorProto tensor = 2; }`,
`TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3; }`. Wire format:
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jumar.base.errors import RecordingError

_TYPES = {
    "Float32": "<f4", "Float16": "<f2", "Float64": "<f8", "Int8": "<i1", "Int16": "<i2", "Int32": "<i4",
    "Int64": "<i8", "UInt8": "<u1", "UInt16": "<u2", "UInt32": "<u4", "UInt64": "<u8", "Bool": "?", "BFloat16": "<u2",
}  # fmt: skip
"""MindSpore's names of types; bfloat16 comes as raw numbers."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def is_mindspore(path: Path) -> bool:
    """Return whether a file begins with a value of the message: field 1 of bytes, in it field 1 of bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(32)
    except OSError:
        return False
    if path.suffix != ".ckpt" or not head.startswith(b"\x0a"):
        return False
    try:
        _, at = _varint(memoryview(head), 1)
    except IndexError:
        return False
    return head[at : at + 1] == b"\x0a"


def load_mindspore(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays by name. Raises RecordingError where the file is cut short or of another form."""
    try:
        data = memoryview(path.read_bytes())
        pieces: dict[str, list[np.ndarray]] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        for field, value in _fields(data):
            if field == 1 and isinstance(value, memoryview):
                name, shape, array = _value(value)
                pieces.setdefault(name, []).append(array)  # a large tensor is several values of one name
                shapes[name] = shape
        return {name: _joined(pieces[name]).reshape(shapes[name]) for name in pieces}
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    except (IndexError, ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path} is cut short or no MindSpore checkpoint ({error}); copy it again.") from error


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _value(data: memoryview) -> tuple[str, tuple[int, ...], np.ndarray]:
    name, tensor = "", memoryview(b"")
    for field, value in _fields(data):
        if field == 1 and isinstance(value, memoryview):
            name = bytes(value).decode("utf-8")
        elif field == 2 and isinstance(value, memoryview):
            tensor = value
    dims: list[int] = []
    kind, content = "", memoryview(b"")
    for field, value in _fields(tensor):
        if field == 1:
            dims.extend([value] if isinstance(value, int) else _packed(value))
        elif field == 2 and isinstance(value, memoryview):
            kind = bytes(value).decode("utf-8")
        elif field == 3 and isinstance(value, memoryview):
            content = value
    array = np.frombuffer(content, dtype=np.dtype(_TYPES[kind]))
    if kind == "BFloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return name, () if dims == [0] and array.size == 1 else tuple(dims), array


def _packed(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield (number, value) of a message's fields: whole numbers, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield field, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError(f"a field of kind {wire} at byte {at} does not fit")
        yield field, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")
