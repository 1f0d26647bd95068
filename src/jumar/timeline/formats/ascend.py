"""Folders of the Ascend PyTorch profiler: `*_ascend_pt` with `ASCEND_PROFILER_OUTPUT`, text or SQLite.

Written by torch_npu on an NPU, and by Jumar's emulated `torch_npu.profiler`. Formats: Ascend PyTorch Profiler user
guide; tables of the database: msprof's reference of profile data.
"""

from __future__ import annotations

from pathlib import Path

from jumar.base.errors import InputError
from jumar.timeline.model.events import Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.vendor import places
from jumar.timeline.vendor.files import settings
from jumar.timeline.vendor.rank import read_rank
from jumar.timeline.vendor.roles import role_of

NAME = "ascend"
LOOKS_FOR = "*_ascend_pt folders of torch_npu.profiler"
_SUFFIX = "_ascend_pt"
_MINDSPORE = "_ascend_ms"
ABSENT = {
    "shapes": "No event has shapes: profile with record_shapes=True and profiler_level=ProfilerLevel.Level1.",
    "stacks": "No event has a call stack: profile with with_stack=True.",
    "device": "There is no event of an NPU: profile with activities that hold ProfilerActivity.NPU.",
    "host": "There is no event of the host: profile with activities that hold ProfilerActivity.CPU.",
    "memory": "There is nothing about memory: profile with profile_memory=True.",
    "steps": "Steps are not marked: profile with schedule=torch_npu.profiler.schedule(...) and call prof.step().",
}
"""What a folder may not have, and how to get it."""


def find(place: Path) -> list[Source]:
    """Return one source for each rank's folder at or below `place`; reads names only."""
    if place.is_file():
        return [_source(place, [place])] if _is_mine(place) else []
    found: dict[Path, Source] = {}
    for folder in places.folders(place):
        if _is_mindspores(folder):
            continue
        if folder.name.endswith(_SUFFIX) or places.is_output(folder):
            owner = folder.parent if folder.name == places.OUTPUT else folder
            output = owner / places.OUTPUT if (owner / places.OUTPUT).is_dir() else folder
            files = [
                path for path in dict.fromkeys([*places.files(owner), *places.files(output)]) if role_of(path.name)
            ]
            found.setdefault(owner, _source(owner, files))
        for path in places.files(folder):
            if not role_of(path.name) and places.is_trace(path):
                found[path] = _source(path, [path])
    return list(found.values())


def _is_mindspores(path: Path) -> bool:
    return any(part.name.endswith(_MINDSPORE) for part in (path, *path.parents))


def _is_mine(path: Path) -> bool:
    if _is_mindspores(path):
        return False
    if role_of(path.name):
        return path.parent.name == places.OUTPUT or path.name.startswith(("trace_view", "ascend_pytorch", "kernel_d"))
    return places.is_trace(path)


def _source(path: Path, files: list[Path]) -> Source:
    return Source(
        format=NAME, path=path, files=files, rank=settings.rank_of([file.name for file in files]),
        size_bytes=places.size(files),
    )  # fmt: skip


def read(source: Source, on_progress: OnProgress | None = None) -> Timeline:
    """Return the events of one rank. Raises InputError where nothing is left, or the data are still raw."""
    if not [file for file in source.files if role_of(file.name) != "settings"]:
        raise InputError(
            f"{source.path} holds no results of the profiler: run torch_npu.profiler.profiler.analyse on it where "
            "torch_npu is installed, then read it again."
        )
    return read_rank(source, NAME, ABSENT, on_progress)
