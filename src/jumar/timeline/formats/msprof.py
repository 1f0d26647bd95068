"""Folders of CANN's msprof: `PROF_*` with `mindstudio_profiler_output`, or `summary` and `timeline` of older versions.

Formats: msprof's reference of profile data. Older versions write one folder `device_N` a device; each is a source.
"""

from __future__ import annotations

import re
from pathlib import Path

from jumar.base.errors import InputError
from jumar.timeline.model.events import Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.vendor import places
from jumar.timeline.vendor.rank import read_rank
from jumar.timeline.vendor.roles import role_of

NAME = "msprof"
LOOKS_FOR = "PROF_* folders of msprof"
_PROF = re.compile(r"PROF_\d+_\d+_\w+")
_OUTPUT = "mindstudio_profiler_output"
_DEVICE = re.compile(r"device_(\d{1,5})")
_OLD = ("summary", "timeline")
_FRAMEWORK = ("_ascend_pt", "_ascend_ms")
ABSENT = {
    "shapes": "No kernel has shapes: collect with --task-time=l1.",
    "stacks": "msprof knows no call stacks: use torch_npu.profiler with with_stack=True.",
    "device": "There is no event of an NPU: collect with --task-time=l1 and export with msprof --export=on.",
    "host": "There are no calls of the host: collect with --ascendcl=on.",
    "memory": "There is nothing about memory: collect with --sys-hardware-mem=on or --task-memory=on.",
    "steps": "Steps are not marked: msprof has them for graphs only; use torch_npu.profiler with a schedule.",
}
"""What a folder may not have, and how to get it."""


def find(place: Path) -> list[Source]:
    """Return the sources at or below `place`; reads names only.

    `PROF_*` inside the folder of a framework's profiler that has been analysed is left to that profiler.
    """
    if place.is_file():
        return [_source(place, [place], None)] if _is_msprofs(place) else []
    found: dict[Path, Source] = {}
    for folder in places.folders(place):
        if folder.name in (_OUTPUT, *_OLD):
            owner = folder.parent
        elif _PROF.fullmatch(folder.name) or any(_is_msprofs(path) for path in places.files(folder)):
            owner = folder
        else:
            continue
        if owner not in found and not _is_frameworks(owner, place):
            files = _files(owner)
            if files:
                found[owner] = _source(owner, files, _device(owner))
    return [source for path, source in found.items() if not _is_host_of_devices(path, found)]


def _is_msprofs(path: Path) -> bool:
    return bool(role_of(path.name)) and path.name.startswith(("op_summary", "msprof_", "task_time_"))


def _files(owner: Path) -> list[Path]:
    """Return what a folder tells, the newer place first; files of the host go with a single device."""
    folders = [owner / _OUTPUT, owner, owner / "analyze", *(owner / name for name in _OLD)]
    if _DEVICE.fullmatch(owner.name) and len(list(owner.parent.glob("device_*"))) == 1:
        folders += [owner.parent / "host" / name for name in _OLD]
    found = [path for folder in folders for path in places.files(folder) if role_of(path.name)]
    newest = {role_of(path.name) for path in found if path.parent.name == _OUTPUT}
    return [path for path in found if path.parent.name not in _OLD or role_of(path.name) not in newest]


def _device(owner: Path) -> int | None:
    named = _DEVICE.fullmatch(owner.name)
    return int(named[1]) if named else None


def _is_frameworks(owner: Path, place: Path) -> bool:
    """Return whether a framework's profiler has made its own files of this data, which have more in them."""
    for folder in owner.parents:
        if folder.name.endswith(_FRAMEWORK) and owner != place:
            return bool(places.files(folder / places.OUTPUT))
    return False


def _is_host_of_devices(path: Path, found: dict[Path, Source]) -> bool:
    """Return whether this is the host's folder beside those of devices: its files are in their sources."""
    return path.name == "host" and any(other.parent == path.parent and other != path for other in found)


def _source(path: Path, files: list[Path], device: int | None) -> Source:
    return Source(format=NAME, path=path, files=files, rank=device, size_bytes=places.size(files))


def read(source: Source, on_progress: OnProgress | None = None) -> Timeline:
    """Return the events of one source. Raises InputError where nothing is left."""
    if not source.files:
        raise InputError(f"{source.path} has not been exported: run msprof --export=on --output={source.path}.")
    return read_rank(source, NAME, ABSENT, on_progress, device=source.rank or 0)
