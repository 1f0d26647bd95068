"""Traces of `torch.profiler` (Kineto): `.json`, `.json.gz`, `.pt.trace.json`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from jumar.operators.traits import has
from jumar.timeline.chrome import files
from jumar.timeline.chrome.clock import NeedsDecimals
from jumar.timeline.chrome.columns import Columns
from jumar.timeline.chrome.document import Document
from jumar.timeline.chrome.gather import Gathering, no_events
from jumar.timeline.chrome.scan import Scanning
from jumar.timeline.model.events import Integers, Side, Timeline
from jumar.timeline.model.source import OnProgress, Source
from jumar.timeline.tally import PIECE, OutOfOrder, Row, Tally
from jumar.timeline.vendor.places import is_trace

NAME = "kineto"
LOOKS_FOR = "torch.profiler's *.json, *.json.gz"
OTHERS = re.compile(r"trace_view\.json|msprof.*\.json|communication.*\.json|profiler_(info|metadata).*\.json")
"""Files of Ascend's profilers that look alike."""
OBJECT = re.compile(rb'"(traceEvents|deviceProperties|distributedInfo)"\s*:\s*[\[{]')
IN_LIST = re.compile(rb'"cat"\s*:\s*"(cpu_op|user_annotation|python_function|kernel|cuda_runtime)"')
OF_RANK = re.compile(r"rank[_\-.]?(\d+)", re.IGNORECASE)
IN_HEAD = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)')


def find(place: Path) -> list[Source]:
    """Return the traces at a file or in a folder and those below it. Raises InputError for a file it cannot read."""
    paths = [place] if place.is_file() else sorted(path for path in place.rglob("*.json*") if path.is_file())
    return [source for path in paths if path.name.endswith((".json", ".json.gz")) and (source := _source(path))]


def read(source: Source, on_progress: OnProgress | None = None) -> Timeline:
    """Return the events of one trace. Damage is a sentence in `lost`; raises InputError where nothing is left."""
    try:
        return _read(source, on_progress, exact=False)
    except NeedsDecimals:
        return _read(source, on_progress, exact=True)


def scan(source: Source) -> Timeline:
    """Return the events of one trace without what stands in their arguments: names, times, lanes, steps.

    Three times as fast as `read`, for folders of many ranks. Raises as `read` does.
    """
    try:
        return _scan(source, exact=False)
    except NeedsDecimals:
        return _scan(source, exact=True)


def tally(
    source: Source, on_progress: OnProgress | None = None
) -> tuple[Sequence[Row], Sequence[tuple[str, Side]], Sequence[str]]:
    """Return sums by group, name and side of each group, and what was lost, in one pass over the file.

    A second pass is needed where times need decimals, and one that keeps all begins and lengths where the events of a
    thread are far from their order.
    """
    exact, piece = False, cast(int | None, PIECE)
    while True:
        try:
            return _tally(source, on_progress, exact=exact, piece=piece)
        except NeedsDecimals:
            exact = True
        except OutOfOrder:
            piece = None


def _source(path: Path) -> Source | None:
    if OTHERS.fullmatch(path.name) or is_trace(path):
        return None
    head = files.head(path)
    if not (OBJECT.search(head) or (head.lstrip()[:1] == b"[" and IN_LIST.search(head))):
        return None
    named = IN_HEAD.search(head) or OF_RANK.search(path.name)
    rank = int(named[1]) if named else None
    return Source(format=NAME, path=path, files=(path,), rank=rank, size_bytes=path.stat().st_size)


def _tally(
    source: Source, on_progress: OnProgress | None, *, exact: bool, piece: int | None
) -> tuple[Sequence[Row], Sequence[tuple[str, Side]], Sequence[str]]:
    document, columns = Document(source.path, on_progress), Columns()

    def may_wait(groups: Integers) -> Any:
        numbers, places = np.unique(groups, return_inverse=True)
        names = list(columns.pairs)
        return np.array([has(str(names[number // 2][1]), "to_host") for number in numbers])[places]

    sums = Tally(may_wait, piece)
    for events in document.events("brief", exact=exact):
        batch = columns.take(events)
        sums.take(batch.start_ns, batch.duration_ns, batch.pair * 2 + batch.lane % 2, batch.kind, batch.lane)
    if not columns.pairs:
        raise no_events(source, document.lost)
    names: list[tuple[str, Side]] = [(str(name), side) for _, name in columns.pairs for side in ("host", "device")]
    return list(sums.finished()), names, [*document.lost, *columns.lost()]


def _scan(source: Source, *, exact: bool) -> Timeline:
    document, gathering = Document(source.path, None), Scanning()
    for events in document.events("brief", exact=exact):
        gathering.take(events)
    return gathering.timeline(source, document.head, document.lost)


def _read(source: Source, on_progress: OnProgress | None, *, exact: bool) -> Timeline:
    document, gathering = Document(source.path, on_progress), Gathering()
    for events in document.events("full", exact=exact):
        gathering.take(events)
    return gathering.timeline(source, document.head, document.lost)
