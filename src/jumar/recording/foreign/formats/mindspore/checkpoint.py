"""Reads MindSpore's `.ckpt`, a protobuf message of named tensors, without protobuf: `Stored` is one of them.

The message (MindSpore's checkpoint.proto): `Checkpoint { repeated Value value = 1; }`,
`Value { string tag = 1; TensorProto tensor = 2; }`,
`TensorProto { repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3; }`. Wire format:
https://protobuf.dev/programming-guides/encoding/. A large tensor is several values of one name. With `crc_check`, 17
bytes follow: `crc_num` and the CRC-32 of all before it.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from jumar.base.errors import RecordingError

TYPES = {
    "Float32": "<f4", "Float16": "<f2", "Float64": "<f8", "Int8": "<i1", "Int16": "<i2", "Int32": "<i4",
    "Int64": "<i8", "UInt8": "<u1", "UInt16": "<u2", "UInt32": "<u4", "UInt64": "<u8", "Bool": "?", "BFloat16": "<u2",
}  # fmt: skip
"""MindSpore's names of types; bfloat16 comes as raw numbers."""

TEXT = "str"
"""The type of a text that was saved beside the tensors (`append_dict`)."""

STATES = frozenset({
    "accum", "accum_update", "adam_m", "adam_v", "ax_", "exp_avg", "lamb_m", "lamb_v", "linear", "mean_grad",
    "mean_square", "moment", "moment1", "moment2", "moments", "prev", "stat", "step_size", "vhat",
})  # fmt: skip
"""First components under which MindSpore's optimizers keep a state for each parameter."""

COUNTERS = frozenset({
    "beta1_power", "beta2_power", "current_iterator_step", "epoch_num", "global_step", "last_overflow_iterator_step",
    "learning_rate", "momentum", "scale_sense", "step_num",
})  # fmt: skip
"""Single numbers of the optimizer and of the training, not of the model."""

_TRAILER = b"crc_num"
_TRAILER_BYTES = len(_TRAILER) + 10

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


@dataclass(slots=True)
class Stored:
    """One tensor of the file as it is stored."""

    kind: str
    """MindSpore's name of the dtype, a key of `TYPES`, or `TEXT`."""
    shape: tuple[int, ...]
    pieces: list[memoryview] = field(default_factory=list)
    """The values' bytes, little-endian, in order."""

    def array(self) -> np.ndarray:
        """Return the values, bfloat16 as float32. Raises KeyError for an unknown type, ValueError for another size."""
        content = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        array = np.frombuffer(content, dtype=np.dtype(TYPES[self.kind]))
        if self.kind == "BFloat16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.reshape(self.shape)


def load_mindspore(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays by name, without texts. Raises RecordingError where the file is damaged or of another form."""
    stored = load_stored(path)
    try:
        return {name: one.array() for name, one in stored.items() if one.kind != TEXT}
    except (ValueError, KeyError, TypeError) as error:
        raise RecordingError(_damaged(path, error)) from error


def load_stored(path: Path) -> dict[str, Stored]:
    """Return what is stored by name. Raises RecordingError where the file is cut short or of another form."""
    try:
        found: dict[str, Stored] = {}
        for number, value in _fields(_message(memoryview(path.read_bytes()))):
            if number == 1 and isinstance(value, memoryview):
                name, one = _value(value)
                known = found.setdefault(name, one)
                if known is not one:
                    known.pieces += one.pieces
        return found
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror or error}); check the path.") from error
    except (IndexError, ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise RecordingError(_damaged(path, error)) from error


def training_state(shapes: Mapping[str, tuple[int, ...]]) -> set[str]:
    """Return the names that belong to the optimizer or count steps: `moment1.fc.weight` beside `fc.weight`."""
    return {name for name in shapes if _is_state(name, shapes)}


def _is_state(name: str, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    first, _, rest = name.partition(".")
    if not rest:
        return name in COUNTERS and shapes[name] in ((), (1,))
    return first in STATES and shapes.get(rest) == shapes[name]


def _damaged(path: Path, error: Exception) -> str:
    return f"{path} is cut short or no MindSpore checkpoint ({error}); copy it again."


def _message(data: memoryview) -> memoryview:
    """Return the data without the checksum at its end. Raises ValueError where that is another's."""
    at = len(data) - _TRAILER_BYTES
    if at < 0 or data[at : at + len(_TRAILER)] != _TRAILER:
        return data
    if binascii.crc32(data[:at]) != int.from_bytes(data[at + len(_TRAILER) :], "big"):
        raise ValueError("its checksum is another")
    return data[:at]


def _value(data: memoryview) -> tuple[str, Stored]:
    name, tensor = "", memoryview(b"")
    for number, value in _fields(data):
        if number == 1 and isinstance(value, memoryview):
            name = bytes(value).decode("utf-8")
        elif number == 2 and isinstance(value, memoryview):
            tensor = value
    dims: list[int] = []
    kind, content = "", memoryview(b"")
    for number, value in _fields(tensor):
        if number == 1:
            dims.extend([value] if isinstance(value, int) else _packed(value))
        elif number == 2 and isinstance(value, memoryview):
            kind = bytes(value).decode("utf-8")
        elif number == 3 and isinstance(value, memoryview):
            content = value
    # The dimensions [0] mean a single number, too: older versions of MindSpore wrote it so.
    shape = () if dims == [0] and content else tuple(dims)
    return name, Stored(kind, shape, [content])


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
