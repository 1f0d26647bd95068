"""`find_sources` and `read_timeline`: the timelines of a file or folder, of every format there is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from jumar.base.errors import InputError
from jumar.timeline import formats
from jumar.timeline.model.events import Timeline
from jumar.timeline.model.source import FormatModule, OnProgress, Source


@cache
def format_modules() -> Mapping[str, FormatModule]:
    """Return the modules of `jumar.timeline.formats` by the names of their formats."""
    modules = [
        importlib.import_module(f"{formats.__name__}.{module.name}")
        for module in pkgutil.iter_modules(formats.__path__)
    ]
    return {module.NAME: cast(FormatModule, module) for module in modules if hasattr(module, "NAME")}


def module_of(source: Source) -> FormatModule:
    """Return the module that reads a source."""
    return format_modules()[source.format]


def find_sources(path: Path | str) -> list[Source]:
    """Return the sources at a file or in a folder, by rank and path.

    Raises InputError where there are none, and says what was looked for.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"{place} does not exist: name the trace file or the folder that a profiler wrote")
    found = [source for module in format_modules().values() for source in module.find(place)]
    if not found:
        what = "no trace" if place.is_file() else "no traces" if any(place.iterdir()) else "nothing"
        looked = "; ".join(
            f"{name} ({getattr(module, 'LOOKS_FOR', 'its files')})" for name, module in format_modules().items()
        )
        raise InputError(f"{place} holds {what} that Jumar reads: name a file or folder of {looked}")
    return sorted(found, key=lambda source: (source.rank if source.rank is not None else -1, str(source.path)))


def one_source(place: Source | Path | str, rank: int | None = None) -> Source:
    """Return the one source at a place, that of a rank where one is given.

    Raises InputError where there is none, or more than one to choose from.
    """
    if isinstance(place, Source):
        return place
    found = [source for source in find_sources(place) if rank is None or (source.rank or 0) == rank]
    if not found:
        ranks = ", ".join(sorted({str(source.rank or 0) for source in find_sources(place)}))
        raise InputError(f"{place} has no trace of rank {rank}: its ranks are {ranks}")
    found = _without_own_notes(found)
    if len(found) > 1:
        names = ", ".join(str(source.path) for source in found[:4]) + (" …" if len(found) > 4 else "")
        raise InputError(f"{place} holds {len(found)} traces ({names}): name one of them, or a rank that only one has")
    return found[0]


def _without_own_notes(found: list[Source]) -> list[Source]:
    """Leave out the trace of Jumar's notes where `jumar profile` wrote it beside the vendor's profile of a rank."""
    vendors = [one for one in found if one.format != "kineto"]
    notes = [one for one in found if one.format == "kineto" and (one.path.parent / "profile.json").is_file()]
    beside = [note for note in notes if any(note.path.parent in vendor.path.parents for vendor in vendors)]
    return [one for one in found if one not in beside]


def source_at(path: Path, rank: int) -> Source:
    """Return the source whose files stand at exactly this path, that of a rank where several do.

    Raises InputError where there is none.
    """
    found = [source for source in find_sources(path) if source.path == path] or [one_source(path, rank)]
    return next((source for source in found if source.rank == rank), found[0])


def read_timeline(
    source: Source | Path | str, rank: int | None = None, on_progress: OnProgress | None = None
) -> Timeline:
    """Return the timeline of a source, or of a file or folder that holds one, or one of this rank.

    Raises InputError where nothing can be read, or where several sources are there and `rank` does not choose one.
    """
    chosen = one_source(source, rank)
    return module_of(chosen).read(chosen, on_progress)


def scan_timeline(source: Source) -> Timeline:
    """Return the timeline of a source without shapes, stacks and links where its format can be read faster so.

    Raises InputError where nothing can be read.
    """
    module = module_of(source)
    scan = getattr(module, "scan", None)
    return scan(source) if scan else module.read(source)
