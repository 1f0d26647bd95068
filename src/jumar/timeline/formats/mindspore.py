"""Folders of MindSpore's profiler: `*_ascend_ms` of newer versions, `profiler` of 1.x and 2.0 to 2.4, minddata's files.

Formats: MindSpore's documentation and the writers of minddata's profiling (`profiling.cc`, `connector_size.cc`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from jumar.timeline.model.events import Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.vendor import checks, places
from jumar.timeline.vendor.files import minddata
from jumar.timeline.vendor.rank import RankReader
from jumar.timeline.vendor.roles import Roles, role_of

NAME = "mindspore"
LOOKS_FOR = "*_ascend_ms and profiler folders of MindSpore"
_SUFFIX = "_ascend_ms"
_RANK = re.compile(r"_(\d{1,6})(?:_detail_time|_detail|_type)?\.(?:csv|json|txt|db)$")
ABSENT = {
    "shapes": "No event has shapes: profile with profiler_level=ProfilerLevel.Level1 and record_shapes=True.",
    "stacks": "No event has a call stack: profile with with_stack=True.",
    "device": "There is no event of an NPU: profile with activities that hold ProfilerActivity.NPU, on an NPU.",
    "host": "There is no event of the host: profile with activities that hold ProfilerActivity.CPU.",
    "memory": "There is nothing about memory: profile with profile_memory=True.",
    "steps": "Steps are not marked: profile with a schedule and call prof.step().",
    "loader": "There is nothing about the data queue: profile with data_process=True. On a CPU, MindSpore 2.10 writes "
    "nothing about it all the same.",
}
"""What a folder may not have, and how to get it."""


def find(place: Path) -> list[Source]:
    """Return one source for each rank's folder at or below `place`; reads names only."""
    if place.is_file():
        is_mine = minddata.is_minddata(place.name) or any(part.name.endswith(_SUFFIX) for part in place.parents)
        return _by_rank(place, [place]) if is_mine and _is_known(place) else []
    found: dict[Path, list[Source]] = {}
    for folder in places.folders(place):
        owner = next((part for part in (folder, *folder.parents) if part.name.endswith(_SUFFIX)), None)
        if owner is not None:
            files = [*places.files(owner), *places.files(owner / places.OUTPUT)]
            found.setdefault(owner, _whole(owner, files))
        elif any(minddata.is_minddata(path.name) for path in places.files(folder)):
            found.setdefault(folder, _by_rank(folder, places.files(folder)))
    return [source for sources in found.values() for source in sources]


def _is_known(path: Path) -> bool:
    return bool(role_of(path.name)) or minddata.is_minddata(path.name)


def _whole(owner: Path, files: list[Path]) -> list[Source]:
    known = [path for path in files if _is_known(path)]
    rank = next((rank for path in known if (rank := _rank(path)) is not None), None)
    source = Source(format=NAME, path=owner, files=known, rank=rank, size_bytes=places.size(known))
    return [source] if known else []


def _by_rank(path: Path, files: Iterable[Path]) -> list[Source]:
    """Return a source for each rank whose files lie together in one folder."""
    ranks: dict[int, list[Path]] = {}
    for file in files:
        if _is_known(file):
            ranks.setdefault(_rank(file) or 0, []).append(file)
    return [
        Source(format=NAME, path=path, files=found, rank=rank, size_bytes=places.size(found))
        for rank, found in sorted(ranks.items())
    ]


def _rank(path: Path) -> int | None:
    found = _RANK.search(path.name)
    return int(found[1]) if found else None


def read(source: Source, on_progress: OnProgress | None = None) -> Timeline:
    """Return the events of one rank. Raises InputError where nothing is left."""
    reader = RankReader(source, Roles.of(source.files), source.rank or 0)
    reader.read(on_progress)
    loader = minddata.MinddataReader(reader.columns, reader.losses, reader.facts)
    steps = loader.read(source.files)
    if steps and not reader.steps:
        reader.steps, reader.steps_from = steps, "vendor"
    has = {
        "memory": any(reader.roles[role] for role in ("memory", "allocations")), "steps": bool(reader.steps),
        "loader": loader.has_queue,
    }  # fmt: skip
    return reader.timeline(format_name=NAME, absent=checks.absent(reader.columns, has, ABSENT))
