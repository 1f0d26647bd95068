"""`open_pytorch`: a file of `torch.save`, of today's zip form or of the form before PyTorch 1.6, as a `Document`."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

from jumar.base.errors import InputError
from jumar.export.formats.document import Document, damaged
from jumar.export.formats.pytorch.archive import Archive
from jumar.export.formats.pytorch.machine import DamagedPickleError, ForbiddenNameError, unpickle
from jumar.export.formats.pytorch.names import MakeTensor, Storage, Table, storage_of
from jumar.export.tensors import Deferred, TensorInfo, Unusable, bytes_of, file_pieces

MAGIC = 0x1950A86A20F9469CFC6C
"""The first pickle of a file of the form before 1.6."""
_PROTOCOL = 1001
_SPARE = 64 << 20
Range = Callable[[Storage, int, int], Iterator[memoryview]]
"""Gives the bytes from a place to another in a storage."""


def open_pytorch(path: Path) -> Document:
    """Return what a file holds; its tensors are read when they are asked for.

    Raises InputError, with the name of the class where there is one, when the file is damaged or holds anything else
    than tensors and plain values.
    """
    with path.open("rb") as file:
        is_zip = file.read(4) == b"PK\x03\x04"
    root = read_archive(Archive(path)) if is_zip else _read_legacy(path)
    return Document(root, "pytorch", "PyTorch")


def read_archive(archive: Archive, more: dict[str, Any] | None = None) -> Any:
    """Return the value in an archive of `torch.save`. Raises InputError."""
    pickles = [name for name in archive.names() if name.count("/") == 1 and name.endswith("/data.pkl")]
    folders = {name.partition("/")[0] for name in archive.names()}
    if any(re.match(r"[^/]+/(constants\.pkl|code/)", name) for name in archive.names()):
        raise InputError(
            f"{archive.path} is a TorchScript archive, not a checkpoint; export the state_dict of the model instead."
        )
    if len(pickles) != 1 or len(folders) != 1:
        raise InputError(damaged(archive.path, "it has no data.pkl"))
    folder = pickles[0].partition("/")[0]
    if f"{folder}/byteorder" in archive.names() and archive.whole(f"{folder}/byteorder") not in {b"little", b""}:
        raise InputError(f"{archive.path} was saved by a big-endian machine; save it on a little-endian one.")

    def part(storage: Storage, start: int, end: int) -> Iterator[memoryview]:
        return archive.pieces(f"{folder}/data/{storage.key}", start, end)

    def found(storage: Storage) -> int:
        return archive.size(f"{folder}/data/{storage.key}")

    table = Table(_maker(archive.path, part, found), more or {})
    return run(archive.path, io.BytesIO(archive.whole(pickles[0])), table, storage_of)


def run(path: Path, file: BinaryIO, table: Table, persistent: Callable[[Any], Any] | None) -> Any:
    """Return the value of the pickle that begins here. Raises InputError."""
    try:
        return unpickle(file, table, persistent)
    except ForbiddenNameError as error:
        raise InputError(refused(path, str(error))) from error
    except (DamagedPickleError, ValueError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise InputError(damaged(path, error)) from error


def refused(path: Path, name: str) -> str:
    """Return the sentence for a file that names `name`."""
    if "sharded_tensor" in name or "DTensor" in name or "._dtensor" in name:
        return (
            f"{path} holds a shard of one rank ({name.rpartition('.')[2]}), and the others are in other files; save "
            "all with torch.distributed.checkpoint.save and name its folder."
        )
    return (
        f"{path} holds {name}, which Jumar does not build because loading it can run code; save the weights alone "
        "with torch.save(model.state_dict(), PATH) where you trust the file."
    )


def _maker(path: Path, part: Range, size_of: Callable[[Storage], int] | None) -> MakeTensor:
    def make(
        storage: Storage, dtype: torch.dtype, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Any:
        info = TensorInfo(shape, dtype)
        if storage.size_bytes == 0 and info.num_values:
            raise DamagedPickleError("a tensor without a storage")
        if size_of is not None and size_of(storage) != storage.size_bytes:
            raise InputError(damaged(path, f"storage {storage.key} has another size"))
        start = offset * dtype.itemsize
        span = _span(shape, strides) * dtype.itemsize
        if start + span > storage.size_bytes:
            raise DamagedPickleError("a tensor reaches beyond its storage")
        if info.num_values > _SPARE + 100 * storage.size_bytes:
            told = f"has {info.num_values:,} values that stand for {storage.size_bytes:,} bytes; save it as a clone()."
            return Unusable(told, shape)
        identity = (storage.key, start, dtype, shape, strides) if info.num_values else None

        def pieces() -> Iterator[memoryview]:
            if span == info.size_bytes and _is_contiguous(shape, strides):
                yield from part(storage, start, start + span)
            elif info.num_values:
                yield bytes_of(_gathered(part(storage, start, start + span), span, info, strides))

        return Deferred(info, pieces, identity)

    return make


def _gathered(parts: Iterator[memoryview], span: int, info: TensorInfo, strides: tuple[int, ...]) -> torch.Tensor:
    """Return a strided tensor made contiguous. Its span of the storage is in memory meanwhile."""
    flat = torch.empty(span, dtype=torch.uint8)
    into, at = bytes_of(flat), 0
    for piece in parts:
        into[at : at + len(piece)] = piece
        at += len(piece)
    return flat.view(info.dtype).as_strided(info.shape, strides).contiguous()


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return how many elements lie between the first and the last of a tensor, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _read_legacy(path: Path) -> Any:
    """Read the form before 1.6: five pickles, then each storage behind the number of its elements."""
    places: dict[str, tuple[int, int]] = {}
    wanted: dict[str, Storage] = {}

    def part(storage: Storage, start: int, end: int) -> Iterator[memoryview]:
        at, size = places.get(storage.key, (0, 0))
        if end > size:
            raise InputError(damaged(path, f"storage {storage.key} is missing"))
        return file_pieces(path, at + start, end - start)

    def persistent(identity: Any) -> Storage:
        if isinstance(identity, tuple) and len(identity) == 6 and identity[5] is not None:
            raise DamagedPickleError("a view of a storage, which PyTorch before 0.4 wrote")
        storage = storage_of(identity)
        if wanted.setdefault(storage.key, storage) != storage:
            raise DamagedPickleError("one storage of two kinds")
        return storage

    table = Table(_maker(path, part, None))
    with path.open("rb") as file:
        head = file.peek(8)[:8] if hasattr(file, "peek") else b""
        if not head.startswith(b"\x80"):
            raise InputError(_of_another_kind(path, head))
        first = run(path, file, table, persistent)
        if first != MAGIC:
            raise InputError(_no_checkpoint(path))
        if run(path, file, table, None) != _PROTOCOL:
            raise InputError(damaged(path, "an unknown version"))
        about = run(path, file, table, None)
        if not isinstance(about, dict) or about.get("little_endian") is not True:
            raise InputError(f"{path} was saved by a big-endian machine; save it on a little-endian one.")
        root = run(path, file, table, persistent)
        keys = run(path, file, table, None)
        at, end = file.tell(), path.stat().st_size
    _lay_out(path, keys, wanted, places, at, end)
    return root


def _lay_out(
    path: Path, keys: Any, wanted: dict[str, Storage], places: dict[str, tuple[int, int]], at: int, end: int
) -> None:
    """Fill `places`: the storages follow each other in the order of the keys."""
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in wanted for key in keys):
        raise InputError(damaged(path, "it names other storages than it holds"))
    with path.open("rb") as file:
        for key in keys:
            storage = wanted[key]
            file.seek(at)
            count = int.from_bytes(file.read(8), "little")
            at += 8
            if count * storage.dtype.itemsize != storage.size_bytes or at + storage.size_bytes > end:
                raise InputError(damaged(path, f"storage {key} is cut short"))
            places[key] = (at, storage.size_bytes)
            at += storage.size_bytes


def _no_checkpoint(path: Path) -> str:
    return (
        f"{path} is a pickle that torch.save did not write; save the weights with torch.save(model.state_dict(), PATH)."
    )


def _of_another_kind(path: Path, head: bytes) -> str:
    if not head:
        return f"{path} is empty; copy it again."
    return f"{path} is no PyTorch checkpoint: it begins with {head!r}; name a file that torch.save wrote."
