"""`write_trace`: timelines as one file of Chrome's trace events, which ui.perfetto.dev opens.

One process a rank, one thread a lane. Times are microseconds with three decimals, so whole nanoseconds are kept; they
count from the first event of all ranks, because viewers read times as float64. A launch and what it started, and a
forward operator and its backward, are joined by flow events (`s` and `f`, bound to the enclosing slice).
Source: Trace Event Format (Google, 2016).
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from jumar.base.files import write_atomically
from jumar.timeline.chrome.kinds import SYNCHRONISES
from jumar.timeline.model.events import Detail, Kind, Side, Timeline
from jumar.timeline.model.joins import forwards, launches

DEVICE_LANES = 1_000_000
"""Numbers of a device's lanes start here: viewers sort them after the threads of the host."""
CATEGORIES = {
    Kind.OPERATOR: "cpu_op", Kind.RANGE: "user_annotation", Kind.PYTHON: "python_function", Kind.RUNTIME: "runtime",
    Kind.WAIT: "runtime", Kind.KERNEL: "kernel", Kind.COPY: "gpu_memcpy", Kind.COLLECTIVE: "collective_comm",
    Kind.COMPILE: "compile", Kind.DATA: "cpu_op", Kind.COLLECTOR: "jumar", Kind.STEP: "user_annotation",
    Kind.OTHER: "other",
}  # fmt: skip
"""Kineto's words for the kinds."""
ON_HOST = {Kind.COLLECTIVE: "cpu_op"}
ON_DEVICE = {Kind.RANGE: "gpu_user_annotation", Kind.STEP: "gpu_user_annotation"}
"""Other words for the host's and the device's side."""


def write_trace(path: Path, timelines: Iterable[Timeline]) -> int:
    """Write timelines to `path`, compressed where its name ends in `.gz`; return the number of events with a length.

    The file is whole or absent. One timeline is in memory at a time where `timelines` makes them one by one. Ranks
    whose formats know the time since 1970 stand at their true distance, others begin at 0. Raises OSError.
    """
    number = 0

    def fill(part: Path) -> None:
        nonlocal number
        with ExitStack() as opened:
            raw: IO[bytes] | gzip.GzipFile = opened.enter_context(part.open("wb"))
            if path.suffix == ".gz":
                raw = opened.enter_context(gzip.GzipFile("", "wb", 5, raw, mtime=0))
            number = _write(opened.enter_context(io.TextIOWrapper(raw, "utf-8")), timelines)

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, fill)
    return number


def _write(file: IO[str], timelines: Iterable[Timeline]) -> int:
    file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
    number, begin, flows, first = 0, None, 0, True
    for index, timeline in enumerate(timelines):
        known = bool(timeline.origin_ns) and len(timeline.events) > 0
        own = timeline.origin_ns + int(timeline.events.start_ns.min()) if known else None
        begin = own if begin is None else begin
        # The first rank's first event is 0; another rank's may be negative, which viewers take.
        offset = timeline.origin_ns - begin if known and begin is not None else -_first_ns(timeline)
        for line in _lines(timeline, index, offset, flows):
            file.write(line if first else ",\n" + line)
            first = False
        number += len(timeline.events)
        flows += 2 * len(timeline.events)
    file.write("\n]}\n")
    return number


def _first_ns(timeline: Timeline) -> int:
    return int(timeline.events.start_ns.min()) if len(timeline.events) else 0


def _lines(timeline: Timeline, process: int, offset: int, flows: int) -> Iterator[str]:
    yield from _metadata(timeline, process)
    lanes = [number + (DEVICE_LANES if lane.side == "device" else 0) for number, lane in enumerate(timeline.lanes)]
    names = [json.dumps(name) for name in timeline.names]
    categories = [_categories(lane.side) for lane in timeline.lanes]
    details = [_arguments(detail) for detail in timeline.details]
    waits = [bool(SYNCHRONISES.search(name)) for name in timeline.names]  # others are operators that read a value
    events = timeline.events
    columns = (
        events.start_ns, events.duration_ns, events.name, events.kind, events.lane, events.detail, events.link,
        events.sequence,
    )  # fmt: skip
    for row in zip(*(column.tolist() for column in columns), strict=True):
        start, duration, name, kind, lane, detail, link, sequence = row
        told = [details[detail]] if detail >= 0 and details[detail] else []
        told += [f'"correlation":{link}'] if link else []
        told += [f'"Sequence number":{sequence}'] if sequence >= 0 else []
        arguments = f',"args":{{{",".join(told)}}}' if told else ""
        category = "cpu_op" if kind == Kind.WAIT and not waits[name] else categories[lane][kind]
        yield (
            f'{{"ph":"X","pid":{process},"tid":{lanes[lane]},"ts":{_micros(start + offset)},'
            f'"dur":{_micros(duration)},"name":{names[name]},"cat":"{category}"{arguments}}}'
        )
    yield from _flows(timeline, process, lanes, offset, flows)
    yield from _counters(timeline, process, offset)


def _metadata(timeline: Timeline, process: int) -> Iterator[str]:
    about = timeline.device_name or timeline.device
    yield _object(ph="M", pid=process, name="process_name", args={"name": f"rank {timeline.rank}"})
    yield _object(ph="M", pid=process, name="process_labels", args={"labels": about})
    yield _object(ph="M", pid=process, name="process_sort_index", args={"sort_index": timeline.rank})
    for number, lane in enumerate(timeline.lanes):
        thread = number + (DEVICE_LANES if lane.side == "device" else 0)
        yield _object(ph="M", pid=process, tid=thread, name="thread_name", args={"name": lane.name})
        yield _object(ph="M", pid=process, tid=thread, name="thread_sort_index", args={"sort_index": thread})


def _categories(side: Side) -> list[str]:
    """Return the category of each kind on a side."""
    own = ON_DEVICE if side == "device" else ON_HOST
    return [own.get(kind, CATEGORIES[kind]) for kind in Kind]


def _arguments(detail: Detail) -> str:
    """Return the members of `args` as JSON without braces; shapes and dtypes are JSON already in most formats."""
    told = {"source": detail.stack, "module": detail.module, **dict(detail.more)}
    texts = [f"{json.dumps(name)}:{json.dumps(text)}" for name, text in told.items() if text]
    for name, text in (("Input Dims", detail.shapes), ("Input type", detail.dtypes)):
        if text:
            texts.append(f'"{name}":{text if _is_json(text) else json.dumps(text)}')
    return ",".join(texts)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _flows(timeline: Timeline, process: int, lanes: list[int], offset: int, first: int) -> Iterator[str]:
    events, number = timeline.events, first
    for title, pairs in (("launch", launches(timeline)), ("forward to backward", forwards(timeline))):
        for source, target in pairs.tolist():
            for phase, row in (("s", source), ("f", target)):
                bound = ',"bp":"e"' if phase == "f" else ""
                yield (
                    f'{{"ph":"{phase}","id":{number},"pid":{process},"tid":{lanes[int(events.lane[row])]},'
                    f'"ts":{_micros(int(events.start_ns[row]) + offset)},"name":"{title}","cat":"{title}"{bound}}}'
                )
            number += 1


def _counters(timeline: Timeline, process: int, offset: int) -> Iterator[str]:
    for counter in timeline.counters:
        title = json.dumps(counter.name)
        for time, value in zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True):
            if np.isfinite(value):
                yield (
                    f'{{"ph":"C","pid":{process},"ts":{_micros(time + offset)},"name":{title},'
                    f'"args":{{{json.dumps(counter.unit)}:{value!r}}}}}'
                )


def _object(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _micros(nanoseconds: int) -> str:
    """Return microseconds with three decimals, exactly."""
    whole, rest = divmod(abs(nanoseconds), 1000)
    return f"{'-' if nanoseconds < 0 else ''}{whole}.{rest:03d}"
