"""`.safetensors` files, read and written without the package, a tensor at a time.

The format (https://github.com/huggingface/safetensors#format): 8 bytes with the length N of the header, little-endian;
N bytes of JSON, `{"NAME": {"dtype": "F16", "shape": [1, 16], "data_offsets": [BEGIN, END]}, "__metadata__": {…}}`; the
tensors, which follow each other without gaps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import torch

from jumar.base.errors import InputError, OutputError
from jumar.export.formats.document import Document, damaged
from jumar.export.tensors import Deferred, TensorInfo, file_pieces

DTYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "U16": torch.uint16,
    "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "U32": torch.uint32, "F32": torch.float32,
    "F64": torch.float64, "I64": torch.int64, "U64": torch.uint64, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
if hasattr(torch, "float8_e8m0fnu"):
    DTYPES["F8_E8M0"] = torch.float8_e8m0fnu
KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""
_METADATA = "__metadata__"
_WHAT = "safetensors file"


def open_safetensors(path: Path) -> Document:
    """Return the tensors of a file by name. Raises InputError for one that is damaged or breaks the format's rules."""
    return Document(read_header(path)[0], "pytorch", "safetensors")


def read_header(path: Path) -> tuple[dict[str, Deferred], dict[str, str]]:
    """Return the tensors and the texts of a file's metadata. Raises InputError."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(MOST_HEADER_BYTES, size - 8):
            raise InputError(damaged(path, f"its header has {length:,} bytes", _WHAT))
        data = file.read(length)
    try:
        header = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InputError(damaged(path, error, _WHAT)) from error
    if not isinstance(header, dict):
        raise InputError(damaged(path, "its header is no table", _WHAT))
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise InputError(damaged(path, "its metadata are no texts", _WHAT))
    places = {name: _place(path, name, told) for name, told in header.items()}
    _check_places(path, [(begin, end) for _, begin, end in places.values()], size - 8 - length)
    start = 8 + length
    tensors = {
        name: Deferred(info, partial(file_pieces, path, start + begin, end - begin))
        for name, (info, begin, end) in places.items()
    }
    return tensors, metadata


def write_safetensors(
    path: Path,
    tensors: Mapping[str, Deferred],
    wrote: Callable[[Deferred, memoryview], None] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors; each key gets its own copy. Raises OutputError for a dtype that the format has not, OSError."""
    for name, tensor in tensors.items():
        if tensor.dtype not in KINDS:
            raise OutputError(f"{name!r} is {tensor.dtype}, which .safetensors has not; write a .pt file.")
        if name == _METADATA:
            raise OutputError(f"a tensor must not be named {_METADATA} in .safetensors; write a .pt file.")
    # Wide dtypes first, so that each tensor begins at a multiple of its item size, as other readers need it.
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)
    places, at = {}, 0
    for name in order:
        places[name] = (at, at + tensors[name].info.size_bytes)
        at = places[name][1]
    header: dict[str, Any] = {_METADATA: dict(metadata or {"format": "pt"})}
    for name, tensor in tensors.items():
        told = {"dtype": KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": list(places[name])}
        header[name] = told
    try:
        data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise OutputError("a key is no Unicode text, which .safetensors has not; write a .pt file.") from error
    data += b" " * (-len(data) % 8)
    with path.open("wb") as file:
        file.write(len(data).to_bytes(8, "little") + data)
        for name in order:
            for piece in tensors[name].pieces():
                if wrote is not None:
                    wrote(tensors[name], piece)
                file.write(piece)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in its header")
    return found


def _place(path: Path, name: str, told: Any) -> tuple[TensorInfo, int, int]:
    if not isinstance(told, dict):
        raise InputError(damaged(path, f"{name!r} has no place", _WHAT))
    shape, offsets, kind = told.get("shape"), told.get("data_offsets"), told.get("dtype")
    if not _are_whole(shape) or not _are_whole(offsets) or len(offsets) != 2:
        raise InputError(damaged(path, f"{name!r} has no shape or place", _WHAT))
    if not isinstance(kind, str) or kind not in DTYPES:
        raise InputError(f"{path} has {name!r} of type {str(kind)[:20]!r}, which PyTorch has not; save it without it.")
    info = TensorInfo(tuple(shape), DTYPES[kind])
    if offsets[1] - offsets[0] != info.size_bytes:
        raise InputError(damaged(path, f"{name!r} has another size than its shape", _WHAT))
    return info, offsets[0], offsets[1]


def _are_whole(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 62 for item in value)


def _check_places(path: Path, places: list[tuple[int, int]], size: int) -> None:
    """Raise InputError unless the tensors follow each other and fill the file."""
    at = 0
    for begin, end in sorted(places):
        if begin != at:
            raise InputError(damaged(path, "its tensors overlap or leave a gap", _WHAT))
        at = end
    if at != size:
        raise InputError(damaged(path, f"its tensors have {at:,} bytes and the file {size:,}", _WHAT))
