"""`open_sharded`: a model in several files beside an index (`model.safetensors.index.json`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.export.find import find_state_dict
from jumar.export.formats.document import Document, damaged
from jumar.export.formats.opening import open_document, read_json
from jumar.recording.foreign.safe import inside

_WHAT = "index of shards"


def open_sharded(path: Path) -> Document:
    """Return the tensors that an index names, each from its file beside it. Raises InputError.

    The index must not lead out of its folder.
    """
    told = read_json(path, _WHAT)
    table = told.get("weight_map") if isinstance(told, dict) else None
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise InputError(f"{path} is no index of shards: it has no weight_map of names to files; name a checkpoint.")
    shards = {name: _shard(path, name) for name in dict.fromkeys(table.values())}
    root: dict[str, Any] = {}
    for key, name in table.items():
        if key not in shards[name]:
            raise InputError(f"{path} says that {key!r} is in {name}, which does not hold it; copy the shards again.")
        root[key] = shards[name][key]
    return Document(root, "pytorch", "shards")


def _shard(index: Path, name: str) -> dict[str, Any]:
    place = inside(index.parent, name)
    if place is None or place.resolve() == index.resolve():
        raise InputError(f"{index} names the shard {name[:80]!r}, which is not in its folder; leave it out.")
    if not place.is_file():
        raise InputError(f"{index} names the shard {name[:80]!r}, which is missing; copy it into the same folder.")
    with place.open("rb") as file:
        if file.read(1) == b"{":
            raise InputError(damaged(index, f"{name} is an index, too", _WHAT))
    return find_state_dict(open_document(place).root, None, place)[1]
