"""A timeline -> `Trace`: the events that are drawn, packed for the page's script.

The payload is zlib data: for each column its bytes in planes (all lowest bytes, then the next ones: neighbours are
alike there and compress well), then JSON of the details. Columns are little-endian: `start` (difference to the event
before), `duration`, `name`, `detail` and `from` (1 + index, 0 for none) in four bytes, `kind` in one.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.show.blocks.profiles import Trace
from jumar.show.pages.profile.rows import in_rows
from jumar.timeline.model.events import Events, Integers, Kind, Timeline
from jumar.timeline.model.joins import forwards, launches

MAX_EVENTS = 500_000
COLUMNS = (("start", 4), ("duration", 4), ("name", 4), ("detail", 4), ("from", 4), ("kind", 1))
"""Columns of the payload in their order, and the bytes of one number."""
_GREATEST = 2**32 - 1


def trace_picture(timeline: Timeline, max_events: int = MAX_EVENTS) -> Trace | None:
    """Return the picture of a timeline, of its slowest steps where there are more than `max_events`; None if empty."""
    chosen, note = _chosen(timeline, max_events)
    if not len(chosen):
        return None
    events = timeline.events.where(chosen)
    order, lanes, depths = in_rows(events)
    events = events.where(order)
    first = int(events.start_ns.min())
    unit = _unit(int(events.end_ns.max()) - first)
    details, detail = _details(timeline, events)
    names, name = np.unique(events.name, return_inverse=True)
    columns = {
        "start": np.diff((events.start_ns - first) // unit, prepend=0) % (_GREATEST + 1),
        "duration": events.duration_ns // unit,
        "name": name,
        "detail": detail,
        "from": _origins(timeline, chosen[order]),
        "kind": events.kind,
    }
    packed = b"".join(_planes(columns[title], size) for title, size in COLUMNS)
    header = {
        "count": len(events),
        "unit_ns": unit,
        "first_ns": first,
        "names": [timeline.names[index] for index in names],
        "kinds": [kind.name.lower() for kind in Kind],
        "lanes": [{"name": lane.name, "process": lane.process, "side": lane.side} for lane in timeline.lanes],
        "rows": _rows(lanes, depths),
        "steps": [[s.number, (s.start_ns - first) // unit, (s.end_ns - first) // unit] for s in timeline.steps],
    }
    payload = zlib.compress(packed + json.dumps(details, separators=(",", ":")).encode(), 6)
    title = f"Rank {timeline.rank}: what ran when"
    return Trace(title=title, header=header, payload=base64.b64encode(payload).decode("ascii"), note=note)


def _chosen(timeline: Timeline, most: int) -> tuple[Integers, str]:
    """Return the events that are drawn and a sentence about those that are not."""
    everything = np.arange(len(timeline.events))
    if len(everything) <= most:
        return everything, ""
    inside, words = _slowest_steps(timeline, most)
    if len(inside) > most:
        longest = np.argpartition(timeline.events.duration_ns[inside], -most)[-most:]
        inside, words = np.sort(inside[longest]), f"{words}, and there its longest {most:,} events"
    return inside, f"Drawn: {words}, of {len(everything):,} events in all. `--perfetto FILE` writes all of them."


def _slowest_steps(timeline: Timeline, most: int) -> tuple[Integers, str]:
    """Return the events of the slowest step and of as many after and before it as there is room for."""
    starts = timeline.events.start_ns
    steps = timeline.steps
    if not steps:
        return np.arange(len(starts)), "the whole"
    last = first = max(range(len(steps)), key=lambda index: steps[index].duration_ns)
    edges = np.searchsorted(np.sort(starts), [(step.start_ns, step.end_ns) for step in steps])
    while True:
        if last + 1 < len(steps) and edges[last + 1, 1] - edges[first, 0] <= most:
            last += 1
        elif first > 0 and edges[last, 1] - edges[first - 1, 0] <= most:
            first -= 1
        else:
            break
    inside = np.flatnonzero((starts >= steps[first].start_ns) & (starts < steps[last].end_ns))
    words = f"step {steps[first].number}" if first == last else f"steps {steps[first].number} to {steps[last].number}"
    return inside, f"{words} around the slowest"


def _unit(length_ns: int) -> int:
    """Return the nanoseconds of one tick: 1, or the least power of ten with which all times fit into 32 bits."""
    unit = 1
    while length_ns // unit > _GREATEST:
        unit *= 10
    return unit


def _details(timeline: Timeline, events: Events) -> tuple[list[list[str]], Integers]:
    """Return the details in use (shapes, dtypes, stack, module), and for each event 1 + the index of its own."""
    used, index = np.unique(events.detail, return_inverse=True)
    known = used >= 0
    found = [timeline.details[row] for row in used[known]]
    numbers = np.where(known, np.cumsum(known), 0)
    return [[one.shapes, one.dtypes, one.stack, one.module] for one in found], numbers[index]


def _origins(timeline: Timeline, drawn: Integers) -> Integers:
    """Return for each event that is drawn 1 + the index of what started it: a kernel's launch, a backward's forward."""
    places = np.zeros(len(timeline.events), np.int64)
    places[drawn] = np.arange(1, len(drawn) + 1)
    found = np.zeros(len(timeline.events), np.int64)
    for pairs in (forwards(timeline), launches(timeline)):
        found[pairs[:, 1]] = places[pairs[:, 0]]
    return found[drawn]


def _rows(lanes: Integers, depths: Integers) -> list[list[int]]:
    """Return lane, depth, first event and number of events of each row."""
    borders = np.flatnonzero(np.append(True, (np.diff(lanes) != 0) | (np.diff(depths) != 0)))
    counts = np.diff(np.append(borders, len(lanes)))
    return [[int(lanes[at]), int(depths[at]), int(at), int(count)] for at, count in zip(borders, counts, strict=True)]


def _planes(values: npt.NDArray[Any], size: int) -> bytes:
    numbers = np.minimum(values, 2 ** (8 * size) - 1).astype(f"<u{size}")
    return bytes(numbers.view(np.uint8).reshape(len(numbers), size).T.tobytes())


def unpacked(trace: Trace) -> tuple[dict[str, npt.NDArray[np.int64]], Sequence[Sequence[str]]]:
    """Return the columns of a picture, `start` summed up, and its details: what the page's script reads."""
    data, count, at = zlib.decompress(base64.b64decode(trace.payload)), trace.header["count"], 0
    columns = {}
    for title, size in COLUMNS:
        planes = np.frombuffer(data, np.uint8, count * size, at).reshape(size, count)
        columns[title] = np.ascontiguousarray(planes.T).view(f"<u{size}")[:, 0].astype(np.int64)
        at += count * size
    columns["start"] = np.cumsum(columns["start"]) % (_GREATEST + 1)
    return columns, json.loads(data[at:])
