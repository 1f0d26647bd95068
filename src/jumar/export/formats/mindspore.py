"""MindSpore's `.ckpt`, read and written a tensor at a time. Neither MindSpore nor protobuf is needed.

The message is described in `jumar.recording.foreign.formats.mindspore.checkpoint`.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch

from jumar.base.errors import InputError, OutputError
from jumar.export.formats.document import Document, damaged
from jumar.export.tensors import Deferred, TensorInfo, file_pieces, held
from jumar.recording.foreign.formats.mindspore.checkpoint import TEXT

SLICE_BYTES = 512 << 20
"""A greater tensor is written as several values of its name, as MindSpore does (`SLICE_SIZE` in its serialization)."""

KINDS = {
    torch.float32: "Float32",
    torch.float16: "Float16",
    torch.bfloat16: "BFloat16",
    torch.float64: "Float64",
    torch.int8: "Int8",
    torch.int16: "Int16",
    torch.int32: "Int32",
    torch.int64: "Int64",
    torch.uint8: "UInt8",
    torch.uint16: "UInt16",
    torch.uint32: "UInt32",
    torch.uint64: "UInt64",
    torch.bool: "Bool",
}
"""MindSpore's names of PyTorch's dtypes."""
DTYPES = {kind: dtype for dtype, kind in KINDS.items()}

_TRAILER = b"crc_num"
_TRAILER_BYTES = len(_TRAILER) + 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_ABOUT = 1 << 20
"""Bytes of a value's name, type and shape."""
_WHAT = "MindSpore checkpoint"
Wrote = Callable[[Deferred, memoryview], None]


def write_mindspore(path: Path, state: Mapping[str, Any], slice_bytes: int = SLICE_BYTES) -> None:
    """Write CPU tensors to a `.ckpt`, no more than `slice_bytes` in a value. Raises as `stream_mindspore`."""
    stream_mindspore(path, {key: held(tensor) for key, tensor in state.items()}, slice_bytes=slice_bytes)


def stream_mindspore(
    path: Path, state: Mapping[str, Deferred], wrote: Wrote | None = None, slice_bytes: int = SLICE_BYTES
) -> None:
    """Write tensors to a `.ckpt`; `wrote` gets every piece.

    Raises OutputError for a dtype that MindSpore has not, and for a tensor of shape (0,), which MindSpore would read
    as a single number; OSError.
    """
    for key, tensor in state.items():
        if tensor.dtype not in KINDS:
            raise OutputError(f"{key!r} is {tensor.dtype}, which MindSpore has not; convert it, or write a .pt file.")
        if tensor.shape == (0,):
            raise OutputError(f"{key!r} is empty, which MindSpore reads as a single number; leave it out.")
    with path.open("wb") as file:
        for key, tensor in state.items():
            _write_tensor(file, key, tensor, slice_bytes, wrote)


def read_mindspore(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a `.ckpt`, texts left out. Raises InputError where it is damaged or of another form."""
    return {key: tensor.read() for key, tensor in open_mindspore(path).root.items()}


def open_mindspore(path: Path) -> Document:
    """Return the tensors of a `.ckpt` by name, texts left out. Raises InputError."""
    values: dict[str, _Value] = {}
    try:
        with path.open("rb") as file:
            size = _checked_size(path, file)
            at = 0
            while at < size:
                name, one, at = _value(file, at, size)
                known = values.setdefault(name, one)
                if known is not one:
                    if (known.kind, known.dims) != (one.kind, one.dims):
                        raise ValueError(f"the parts of {name!r} are of two kinds")
                    known.spans += one.spans
        tensors = {name: _deferred(path, name, one) for name, one in values.items() if one.kind != TEXT}
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}); check its permissions.") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(damaged(path, error, _WHAT)) from error
    return Document(tensors, "mindspore", "MindSpore")


@dataclass(slots=True)
class _Value:
    """A named tensor of the message."""

    kind: str = ""
    dims: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where its values lie in the file: begin and end."""


def _deferred(path: Path, name: str, value: _Value) -> Deferred:
    dtype = DTYPES.get(value.kind)
    if dtype is None:
        raise InputError(f"{path} has {name!r} of type {value.kind!r}, which PyTorch has not; save it without it.")
    size = sum(end - begin for begin, end in value.spans)
    # The dimensions [0] mean a single number, too: older versions of MindSpore wrote it so.
    shape = () if value.dims == [0] and size else tuple(value.dims)
    info = TensorInfo(shape, dtype)
    if any(extent < 0 or extent >= 1 << 62 for extent in shape) or info.size_bytes != size:
        raise InputError(damaged(path, f"{size} bytes for {name!r} of {shape}", _WHAT))

    def pieces() -> Iterator[memoryview]:
        for begin, end in value.spans:
            yield from file_pieces(path, begin, end - begin)

    return Deferred(info, pieces)


def _checked_size(path: Path, file: BinaryIO) -> int:
    """Return the length of the message without the checksum at its end. Raises ValueError where that is another's."""
    size = path.stat().st_size
    at = size - _TRAILER_BYTES
    if at < 0:
        return size
    file.seek(at)
    trailer = file.read(_TRAILER_BYTES)
    if not trailer.startswith(_TRAILER):
        return size
    crc = 0
    for piece in file_pieces(path, 0, at):
        crc = binascii.crc32(piece, crc)
    if crc != int.from_bytes(trailer[len(_TRAILER) :], "big"):
        raise ValueError("its checksum is another")
    return at


def _value(file: BinaryIO, at: int, size: int) -> tuple[str, _Value, int]:
    """Read one `Value`; return its name, the tensor and where the next one begins."""
    name, value = "", _Value()
    number, begin, end = _field(file, at, size)
    if number != 1 or begin == end:
        raise ValueError(f"a field {number} at byte {at}")
    inner = begin
    while inner < end:
        number, start, stop = _field(file, inner, end)
        if number == 1:
            name = _small(file, start, stop).decode("utf-8")
        elif number == 2:
            _tensor(file, start, stop, value)
        inner = stop
    return name, value, end


def _tensor(file: BinaryIO, at: int, end: int, value: _Value) -> None:
    while at < end:
        number, start, stop = _field(file, at, end)
        if number == 1:
            data, place = _small(file, start, stop), 0
            while place < len(data):
                extent, place = _varint_of(data, place)
                value.dims.append(extent)
        elif number == 2:
            value.kind = _small(file, start, stop).decode("utf-8")
        elif number == 3:
            value.spans.append((start, stop))
        at = stop


def _field(file: BinaryIO, at: int, end: int) -> tuple[int, int, int]:
    """Return the number of the field at `at`, and where its content begins and ends. Raises ValueError."""
    file.seek(at)
    head = file.read(min(20, end - at))
    key, place = _varint_of(head, 0)
    wire = key & 7
    if wire == _VARINT:
        _, after = _varint_of(head, place)
        begin, stop = at + place, at + after
    elif wire == _BYTES:
        length, place = _varint_of(head, place)
        begin, stop = at + place, at + place + length
    elif wire in {_FIXED64, _FIXED32}:
        begin, stop = at + place, at + place + (8 if wire == _FIXED64 else 4)
    else:
        raise ValueError(f"a field of kind {wire} at byte {at}")
    if stop > end:
        raise ValueError(f"a field at byte {at} does not fit")
    return key >> 3, begin, stop


def _small(file: BinaryIO, begin: int, end: int) -> bytes:
    if end - begin > _MOST_ABOUT:
        raise ValueError(f"a name or shape of {end - begin:,} bytes")
    file.seek(begin)
    return file.read(end - begin)


def _varint_of(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(data):
            raise ValueError("a number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, at
    raise ValueError("a number is too long")


def _write_tensor(file: BinaryIO, key: str, tensor: Deferred, slice_bytes: int, wrote: Wrote | None) -> None:
    dims = b"".join(b"\x08" + _varint(extent) for extent in tensor.shape)
    about = dims + _bytes_field(2, KINDS[tensor.dtype].encode())
    tag = _bytes_field(1, key.encode())
    item = tensor.dtype.itemsize
    size, left = max(slice_bytes - slice_bytes % item, item), tensor.info.size_bytes
    room = 0
    if not left:
        file.write(_head(tag, about, 0))
    for piece in tensor.pieces():
        if wrote is not None:
            wrote(tensor, piece)
        while piece:
            if not room:
                room = min(size, left)
                file.write(_head(tag, about, room))
            part = piece[:room]
            file.write(part)
            room, left, piece = room - len(part), left - len(part), piece[len(part) :]  # noqa: PLW2901


def _head(tag: bytes, about: bytes, size: int) -> bytes:
    """Return what stands before the `size` bytes of a value."""
    ends = b"\x1a" + _varint(size)
    inner = b"\x12" + _varint(len(about) + len(ends) + size) + about + ends
    return b"\x0a" + _varint(len(tag) + len(inner) + size) + tag + inner


def _bytes_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
