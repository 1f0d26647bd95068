"""`open_distributed`: a folder of `torch.distributed.checkpoint` (FSDP, tensor parallel), its shards joined.

`.metadata` is a pickle that says of each tensor its shape, its chunks, and in which `.distcp` file each chunk lies: an
archive of `torch.save` at a place in the file. The pickle is read over a table of names; nothing in it is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import InputError
from jumar.export.formats.document import Document, damaged
from jumar.export.formats.pytorch.archive import Archive
from jumar.export.formats.pytorch.machine import Builder
from jumar.export.formats.pytorch.names import Attributes, Table
from jumar.export.formats.pytorch.reading import read_archive, run
from jumar.export.tensors import Deferred, TensorInfo, bytes_of
from jumar.recording.foreign.safe import inside

_WHAT = "distributed checkpoint"
_HOME = "torch.distributed.checkpoint.metadata"
_MOST_LIST = 1_000_000


class _Index(Attributes):
    """Names a chunk. It is a key, so it is told apart by what it is and not by its values."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class _Bytes(Attributes):
    """Stands for a value that is no tensor."""


_RECORDS = {
    f"{_HOME}.Metadata": Attributes, f"{_HOME}.TensorStorageMetadata": Attributes,
    f"{_HOME}.ChunkStorageMetadata": Attributes, f"{_HOME}.TensorProperties": Attributes,
    f"{_HOME}.StorageMeta": Attributes, f"{_HOME}.BytesStorageMetadata": _Bytes, f"{_HOME}.MetadataIndex": _Index,
    "torch.distributed.checkpoint.filesystem._StorageInfo": Attributes,
}  # fmt: skip


class _Properties(Attributes):
    """The properties of a tensor, which are pickled as a tuple that begins with the dtype."""

    def take_state(self, state: Any) -> Attributes:
        """Take the dtype."""
        if isinstance(state, tuple) and state and isinstance(state[0], torch.dtype):
            self["dtype"] = state[0]
            return self
        return super().take_state(state)


def open_distributed(folder: Path) -> Document:
    """Return what a folder holds, nested as it was saved.

    Raises InputError where it is damaged, leads out of the folder, or holds anything else than tensors and values.
    """
    path = folder / ".metadata"
    more: dict[str, Any] = {name: Builder(name, _made(kind)) for name, kind in _RECORDS.items()}
    more[f"{_HOME}.TensorProperties"] = Builder("TensorProperties", _made(_Properties))
    more[f"{_HOME}._MEM_FORMAT_ENCODING"] = Builder("memory format", lambda *_: None)
    with path.open("rb") as file:
        told = run(path, file, Table(_no_tensor, more), None)
    kinds, places = _part(path, told, "state_dict_metadata"), _part(path, told, "storage_data")
    ways = told.get("planner_data")
    chunks = _chunks(path, places)
    flat = {key: _value(folder, key, kind, chunks.get(key, {})) for key, kind in kinds.items()}
    return Document(_nested(path, flat, ways if isinstance(ways, dict) else {}), "pytorch", "distributed")


def _made(kind: type[Attributes]) -> Any:
    return lambda *_, **__: kind()


def _no_tensor(*_: Any) -> Any:
    raise ValueError("a tensor in the metadata")


def _part(path: Path, told: Any, name: str) -> Mapping[Any, Any]:
    part = told.get(name) if isinstance(told, Attributes) else None
    if not isinstance(part, dict):
        raise InputError(damaged(path, f"it has no {name}", _WHAT))
    return part


def _chunks(path: Path, places: Mapping[Any, Any]) -> dict[str, dict[tuple[int, ...] | None, Attributes]]:
    """Return for each name where its chunks lie, by their offsets in the tensor."""
    found: dict[str, dict[tuple[int, ...] | None, Attributes]] = {}
    for index, place in places.items():
        if not isinstance(index, _Index) or not isinstance(place, Attributes) or not isinstance(index.get("fqn"), str):
            raise InputError(damaged(path, "a chunk has no name or no place", _WHAT))
        offset = index.get("offset")
        found.setdefault(index["fqn"], {})[offset if isinstance(offset, tuple) else None] = place
    return found


def _value(folder: Path, key: Any, kind: Any, chunks: Mapping[tuple[int, ...] | None, Attributes]) -> Any:
    path = folder / ".metadata"
    if not isinstance(key, str):
        raise InputError(damaged(path, "a name is no text", _WHAT))
    if isinstance(kind, _Bytes):
        place = chunks.get(None)
        if place is None:
            raise InputError(damaged(path, f"{key!r} has no place", _WHAT))
        return read_archive(_archive(folder, key, place))
    return _tensor(folder, key, kind, chunks)


def _tensor(folder: Path, key: str, kind: Any, chunks: Mapping[tuple[int, ...] | None, Attributes]) -> Deferred:
    path = folder / ".metadata"
    properties = kind.get("properties") if isinstance(kind, Attributes) else None
    dtype = properties.get("dtype") if isinstance(properties, Attributes) else None
    shape, parts = (kind.get("size"), kind.get("chunks")) if isinstance(kind, Attributes) else (None, None)
    if not isinstance(dtype, torch.dtype) or not isinstance(shape, tuple) or not isinstance(parts, list):
        raise InputError(damaged(path, f"{key!r} has no shape or dtype", _WHAT))
    info = TensorInfo(shape, dtype)
    boxes: list[tuple[tuple[int, ...], tuple[int, ...], Attributes]] = []
    for part in parts:
        offsets = part.get("offsets") if isinstance(part, Attributes) else None
        sizes = part.get("sizes") if isinstance(part, Attributes) else None
        place = chunks.get(offsets) if isinstance(offsets, tuple) else None
        if not isinstance(offsets, tuple) or not isinstance(sizes, tuple) or place is None:
            raise InputError(f"{folder} lacks a shard of {key!r}; copy the files of all ranks into it.")
        boxes.append((offsets, sizes, place))
    _check_boxes(path, key, shape, boxes)

    def pieces() -> Iterator[memoryview]:
        if len(boxes) == 1:
            yield from _chunk(folder, key, boxes[0][2], info).pieces()
        elif info.num_values:
            yield bytes_of(_joined(folder, key, info, boxes))

    return Deferred(info, pieces)


def _joined(folder: Path, key: str, info: TensorInfo, boxes: list[tuple[Any, Any, Attributes]]) -> torch.Tensor:
    whole = torch.empty(info.shape, dtype=info.dtype)
    for offsets, sizes, place in boxes:
        part = _chunk(folder, key, place, TensorInfo(sizes, info.dtype)).read()
        where = tuple(slice(start, start + size) for start, size in zip(offsets, sizes, strict=True))
        whole[where] = part
    return whole


def _check_boxes(path: Path, key: str, shape: tuple[int, ...], boxes: list[tuple[Any, Any, Attributes]]) -> None:
    """Raise InputError unless the chunks lie within the tensor, apart from each other, and cover it."""
    covered = 0
    for offsets, sizes, _ in boxes:
        if len(offsets) != len(shape) or len(sizes) != len(shape):
            raise InputError(damaged(path, f"a shard of {key!r} has another rank", _WHAT))
        if any(start + size > extent for start, size, extent in zip(offsets, sizes, shape, strict=True)):
            raise InputError(damaged(path, f"a shard of {key!r} reaches beyond it", _WHAT))
        covered += math.prod(sizes)
    apart = not any(_overlap(one, other) for at, one in enumerate(boxes) for other in boxes[at + 1 :])
    if covered != math.prod(shape) or not apart:
        raise InputError(damaged(path, f"the shards of {key!r} do not make it up", _WHAT))


def _overlap(one: tuple[Any, Any, Attributes], other: tuple[Any, Any, Attributes]) -> bool:
    sides = zip(one[0], one[1], other[0], other[1], strict=True)
    return all(a < b + db and b < a + da for a, da, b, db in sides)


def _chunk(folder: Path, key: str, place: Attributes, info: TensorInfo) -> Deferred:
    found = read_archive(_archive(folder, key, place))
    if not isinstance(found, Deferred) or found.info != info:
        raise InputError(damaged(folder / str(place.get("relative_path")), f"{key!r} is another tensor", _WHAT))
    return found


def _archive(folder: Path, key: str, place: Attributes) -> Archive:
    name, offset, length = place.get("relative_path"), place.get("offset"), place.get("length")
    file = inside(folder, name) if isinstance(name, str) else None
    if file is None:
        raise InputError(f"{folder} names the file {str(name)[:80]!r} for {key!r}, which is not in it; save it again.")
    if place.get("transform_descriptors"):
        raise InputError(f"{folder} is stored with an extension of PyTorch (compressed?); save it without one.")
    if not file.is_file():
        raise InputError(f"{folder} lacks {name}; copy the files of all ranks into it.")
    if type(offset) is not int or type(length) is not int or offset < 0 or offset + length > file.stat().st_size:
        raise InputError(damaged(file, f"{key!r} reaches beyond its end", _WHAT))
    return Archive(file, offset, length)


def _nested(path: Path, flat: Mapping[str, Any], ways: Mapping[Any, Any]) -> Any:
    """Return values in mappings and lists as they were before PyTorch gave each a name of its own."""
    root: dict[Any, Any] = {}
    for key, value in flat.items():
        way = ways.get(key)
        parts = way if isinstance(way, tuple) and way else (key,)
        at = root
        for part in parts[:-1]:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise InputError(damaged(path, f"{key!r} lies within a value", _WHAT))
        at[parts[-1]] = value
    return _listed(root)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    made = {key: _listed(item) for key, item in value.items()}
    numbers = [key for key in made if type(key) is int]
    if made and len(numbers) == len(made) <= _MOST_LIST and sorted(numbers) == list(range(len(made))):
        return [made[number] for number in range(len(made))]
    return made
