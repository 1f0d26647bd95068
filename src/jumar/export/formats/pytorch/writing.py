"""`write_pytorch`: a file that `torch.load` takes (also with `mmap=True`), written a tensor at a time.

The form is the zip archive of `torch.save` (PyTorch 1.6 and later): `archive/data.pkl` names a storage for each tensor,
`archive/data/KEY` holds it, uncompressed and at a multiple of 64 bytes.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.export.tensors import Deferred

_ALIGNMENT = 64
_PAD_ID = 0x4246
"""Number of the zip field that holds nothing: "FB", which torch.save writes."""
_TIME = (1980, 1, 1, 0, 0, 0)
_TYPED = {
    torch.float64: torch.DoubleStorage, torch.float32: torch.FloatStorage, torch.float16: torch.HalfStorage,
    torch.bfloat16: torch.BFloat16Storage, torch.int64: torch.LongStorage, torch.int32: torch.IntStorage,
    torch.int16: torch.ShortStorage, torch.int8: torch.CharStorage, torch.uint8: torch.ByteStorage,
    torch.bool: torch.BoolStorage, torch.complex128: torch.ComplexDoubleStorage,
    torch.complex64: torch.ComplexFloatStorage,
}  # fmt: skip
"""Newer dtypes have no class of storages; their bytes are an untyped storage."""


@dataclass(frozen=True, slots=True)
class _StorageRef:
    kind: Any
    key: str
    count: int


def write_pytorch(path: Path, root: Any, wrote: Callable[[Deferred, memoryview], None] | None = None) -> None:
    """Write a value whose tensors are `Deferred`. `wrote` gets every piece of every tensor.

    Two tensors of one identity are written once and stay tied. Raises OSError.
    """
    pickler = _Pickler()
    data = pickler.dumped(root)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _member(archive, "data.pkl", [memoryview(data)], len(data))
        for name, content in ((".format_version", b"1"), (".storage_alignment", b"64"), ("byteorder", b"little")):
            _member(archive, name, [memoryview(content)], len(content))
        for key, tensor in enumerate(pickler.tensors):
            _member(archive, f"data/{key}", _told(tensor, wrote), tensor.info.size_bytes)
        _member(archive, "version", [memoryview(b"3\n")], 2)


def _told(tensor: Deferred, wrote: Callable[[Deferred, memoryview], None] | None) -> Iterator[memoryview]:
    for piece in tensor.pieces():
        if wrote is not None:
            wrote(tensor, piece)
        yield piece


def _member(archive: zipfile.ZipFile, name: str, pieces: Any, size: int) -> None:
    told = zipfile.ZipInfo(f"archive/{name}", _TIME)
    large = size * 1.05 > zipfile.ZIP64_LIMIT
    assert archive.fp is not None
    begins = archive.fp.tell() + 30 + len(told.filename) + (20 if large else 0) + 4
    gap = -begins % _ALIGNMENT
    told.extra = struct.pack("<HH", _PAD_ID, gap) + b"Z" * gap
    with archive.open(told, "w", force_zip64=large) as file:
        for piece in pieces:
            file.write(piece)


class _Pickler(pickle.Pickler):
    """Writes names of PyTorch's functions in the place of tensors."""

    def __init__(self) -> None:
        self._to = io.BytesIO()
        super().__init__(self._to, protocol=2)
        self.tensors: list[Deferred] = []
        self._keys: dict[Hashable, str] = {}
        self._kept: list[Any] = []

    def dumped(self, root: Any) -> bytes:
        """Return the pickle of a value."""
        self.dump(root)
        return self._to.getvalue()

    def persistent_id(self, value: Any) -> Any:
        """Name a storage of the archive."""
        if isinstance(value, _StorageRef):
            return ("storage", value.kind, value.key, "cpu", value.count)
        return None

    def reducer_override(self, value: Any) -> Any:
        """Say how a tensor is rebuilt."""
        if not isinstance(value, Deferred):
            return NotImplemented
        strides, step = [], 1
        for extent in reversed(value.shape):
            strides.append(step)
            step *= max(extent, 1)
        shape, stride = tuple(value.shape), tuple(reversed(strides))
        kind = _TYPED.get(value.dtype)
        key = self._key(value)
        if kind is not None:
            storage = _StorageRef(kind, key, value.info.num_values)
            return torch._utils._rebuild_tensor_v2, (storage, 0, shape, stride, False, OrderedDict())
        storage = _StorageRef(torch.UntypedStorage, key, value.info.size_bytes)
        return torch._utils._rebuild_tensor_v3, (storage, 0, shape, stride, False, OrderedDict(), value.dtype)

    def _key(self, tensor: Deferred) -> str:
        identity = ("by identity", tensor.identity) if tensor.identity is not None else ("by object", id(tensor))
        if identity not in self._keys:
            self._keys[identity] = str(len(self.tensors))
            self.tensors.append(tensor)
        return self._keys[identity]
