"""What describes a rank beside its events: steps, queues of data, kernels on the AI CPU, caches, memory's owners."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from jumar.timeline.model.allocations import Allocations
from jumar.timeline.model.events import Detail, Kind, Lane, StepWindow
from jumar.timeline.vendor import words
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files.kernels import Kernel
from jumar.timeline.vendor.files.statistics import Sums, add
from jumar.timeline.vendor.files.step_tables import Iteration
from jumar.timeline.vendor.text import tables
from jumar.timeline.vendor.text.losses import Losses

_QUEUES: tables.Columns = {
    "name": ("Node Name", "node_name"),
    "start": ("Start Time", "start_time"),
    "end": ("End Time", "end_time"),
    "size": ("Queue Size", "queue_size"),
}
_AI_CPU: tables.Columns = {
    "name": ("Node", "kernel_type", "Node Name"),
    "time": ("Timestamp",),
    "total": ("Total_time", "Total Time"),
    "task": ("Task_time",),
    "device": ("Device_id",),
}
_CACHES: tables.Columns = {"name": ("Op Name", "Op_name"), "hits": ("Hit Rate",), "victims": ("Victim Rate",)}
_MARK = re.compile(r"#(\d{1,18})")


def marked_steps(marks: Iterable[tuple[str, int, int]]) -> list[StepWindow]:
    """Return the steps of marks (name, begin, end): each lasts to the begin of the next, the last to its own end."""
    ordered = sorted({(start, end, name) for name, start, end in marks})
    steps = []
    for place, (start, end, name) in enumerate(ordered):
        following = ordered[place + 1][0] if place + 1 < len(ordered) else end
        found = _MARK.search(name)
        steps.append(StepWindow(int(found[1]) if found else place, start, following))
    return steps


def steps_of_kernels(kernels: Iterable[Kernel]) -> list[StepWindow]:
    """Return the steps that a table of kernels names: from the first kernel of each to the first of the next."""
    spans: dict[int, tuple[int, int]] = {}
    for kernel in kernels:
        if kernel.step >= 0:
            start, end = spans.get(kernel.step, (kernel.start_ns, 0))
            spans[kernel.step] = min(start, kernel.start_ns), max(end, kernel.start_ns + kernel.duration_ns)
    ordered = sorted((start, end, number) for number, (start, end) in spans.items())
    return [
        StepWindow(number, start, ordered[place + 1][0] if place + 1 < len(ordered) else end)
        for place, (start, end, number) in enumerate(ordered)
    ]


def take_iterations(columns: EventColumns, found: Sequence[Iteration], file: str, losses: Losses) -> list[StepWindow]:
    """Take the phases of a graph's steps as ranges and return the steps.

    Their clock may not be that of the events: then neither is taken, with a sentence.
    """
    starts = columns.start_ns
    first, last = found[0].window.start_ns, found[-1].window.end_ns
    if len(starts) and (last < min(starts) or first > max(starts)):
        losses.say(file, f"its {len(found)} steps are in another clock than the events, so they are left out.")
        return []
    lane = Lane("step trace", "Step trace", "host")
    for step in found:
        window, forward, backward = step.window, step.forward_ns, step.backward_ns
        if forward is None or backward is None or not window.start_ns <= forward <= backward <= window.end_ns:
            continue
        for name, start, end in (
            ("iteration interval", window.start_ns, forward), ("forward and backward", forward, backward),
            ("step tail", backward, window.end_ns),
        ):  # fmt: skip
            columns.add(start, end - start, Kind.RANGE, name, lane)
    return [step.window for step in found]


def read_queues(paths: Iterable[Path], columns: EventColumns, losses: Losses) -> None:
    """Take the readings of the data queue (`aicpu_mi_*.csv`): an event, and the depth of the queue. Raises OSError."""
    for path in paths:
        for row in tables.rows(path, _QUEUES, ("start", "end", "size"), losses):
            start, end, size = row.ns("start"), row.ns("end"), row.integer("size")
            if start is None or end is None or size is None or end < start:
                losses.passed_over(path.name, "their times or their queue size are no numbers")
                continue
            columns.add(
                start, end - start, Kind.DATA, row.text("name") or "GetNext", Lane("data queue", "AI CPU", "host")
            )
            columns.builder.count("loader queue", "count", start, size)


def ai_cpu(paths: Iterable[Path], columns: EventColumns, losses: Losses, device: int) -> dict[str, str]:
    """Return number and time of the kernels on the AI CPU by name, as a fact. Raises OSError.

    They become events only where no event of the device is there: the trace has the same ones.
    """
    is_needed = not any(lane.side == "device" for lane in columns.lanes)
    sums: Sums = {}
    for path in paths:
        for row in tables.rows(path, _AI_CPU, ("name", "total"), losses):
            total, time = row.ns("total"), row.ns("time")
            if total is None:
                losses.passed_over(path.name, "their time is no number")
                continue
            add(sums, row.text("name"), total)
            if is_needed and time is not None:
                number = row.integer("device")
                lane = Lane("AI CPU", "Ascend Hardware", "device", device if number is None else number)
                detail = Detail(more=((words.CORE, words.AI_CPU),))
                columns.add(time, total, Kind.KERNEL, row.text("name"), lane, detail=detail)
    text = json.dumps({name: [number, time / 1000] for name, (number, time) in sums.items()})
    return {"AI CPU kernels, number and us": text} if sums else {}


def caches(paths: Iterable[Path], losses: Losses) -> dict[str, str]:
    """Return the mean hit rate of the second-level cache by kernel, as a fact. Raises OSError."""
    rates: dict[str, list[float]] = {}
    for path in paths:
        for row in tables.rows(path, _CACHES, ("name", "hits"), losses):
            rate = row.number("hits")
            if rate is not None:
                rates.setdefault(row.text("name"), []).append(rate)
    text = json.dumps({name: round(sum(found) / len(found), 6) for name, found in rates.items()})
    return {"L2 hit rate": text} if rates else {}


def since(found: Allocations, origin_ns: int) -> Allocations:
    """Return allocations with times since the timeline's origin."""
    return replace(found, peak_ns=None if found.peak_ns is None else found.peak_ns - origin_ns)
