"""MindSpore's `.ckpt` as an export format: `MINDSPORE`. Neither MindSpore nor protobuf is needed.

The message is described in `jumar.recording.foreign.formats.mindspore.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from jumar.base.errors import InputError, OutputError
from jumar.recording.foreign.formats.mindspore.checkpoint import TEXT, Stored, load_stored

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


def write_mindspore(path: Path, state: Mapping[str, Any], slice_bytes: int = SLICE_BYTES) -> None:
    """Write CPU tensors to a `.ckpt`, no more than `slice_bytes` in a value.

    Raises OutputError for a dtype that MindSpore has not, and for a tensor of shape (0,), which MindSpore would read
    as a single number.
    """
    for key, tensor in state.items():
        if tensor.dtype not in KINDS:
            raise OutputError(f"{key!r} is {tensor.dtype}, which MindSpore has not; convert it, or write a .pt file.")
        if tensor.shape == (0,):
            raise OutputError(f"{key!r} is empty, which MindSpore reads as a single number; leave it out.")
    with path.open("wb") as file:
        for key, tensor in state.items():
            _write_tensor(file, key, tensor, slice_bytes)


def read_mindspore(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a `.ckpt`, texts left out. Raises InputError where it is damaged or of another form."""
    return {key: _tensor(path, key, one) for key, one in load_stored(path).items() if one.kind != TEXT}


def _write_tensor(file: BinaryIO, key: str, tensor: torch.Tensor, slice_bytes: int) -> None:
    content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data
    dims = b"".join(b"\x08" + _varint(extent) for extent in tensor.shape)
    about = dims + _bytes_field(2, KINDS[tensor.dtype].encode())
    tag = _bytes_field(1, key.encode())
    size = max(slice_bytes - slice_bytes % tensor.element_size(), tensor.element_size())
    for piece in _pieces(content, size):
        ends = b"\x1a" + _varint(len(piece))
        inner = b"\x12" + _varint(len(about) + len(ends) + len(piece)) + about + ends
        file.write(b"\x0a" + _varint(len(tag) + len(inner) + len(piece)) + tag + inner)
        file.write(piece)


def _pieces(content: memoryview, size: int) -> Iterator[memoryview]:
    yield content[:size]
    for start in range(size, len(content), size):
        yield content[start : start + size]


def _bytes_field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _tensor(path: Path, key: str, stored: Stored) -> torch.Tensor:
    dtype = DTYPES.get(stored.kind)
    if dtype is None:
        raise InputError(f"{path} has {key!r} of type {stored.kind!r}, which PyTorch has not; save it without it.")
    content = bytearray().join(stored.pieces)
    flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
    try:
        return flat.reshape(stored.shape)
    except RuntimeError as error:
        raise InputError(f"{path} has {len(content)} bytes for {key!r} of {stored.shape}; copy it again.") from error
