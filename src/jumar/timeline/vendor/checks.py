"""Two files that tell the same are compared; and what a folder never had is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from jumar.timeline.model.events import Kind
from jumar.timeline.spans import Spans
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files import statistics, step_tables
from jumar.timeline.vendor.files.kernels import Kernel
from jumar.timeline.vendor.files.statistics import Side, Sums, add, compare
from jumar.timeline.vendor.files.step_tables import Share
from jumar.timeline.vendor.joins import add_kernels
from jumar.timeline.vendor.roles import Roles
from jumar.timeline.vendor.text import tables
from jumar.timeline.vendor.text.losses import Losses

_HOST: tables.Columns = {"name": ("Name",), "time": ("Host Total Duration",)}
_OFF_NS, _OFF_SHARE = 1000, 0.01
"""A step's time of computing may be off by a microsecond or by one percent, whichever is more."""


def by_name(columns: EventColumns, names: Collection[str]) -> Sums:
    """Return number and time of the device's events of these names."""
    found: Sums = {}
    for number, lane, duration in zip(columns.name, columns.lane, columns.duration_ns, strict=True):
        if columns.lanes[lane].side == "device" and columns.names[number] in names:
            add(found, columns.names[number], duration)
    return found


def kernels_left(
    columns: EventColumns, left: Sequence[Kernel], num_long: int, files: tuple[str, str], losses: Losses
) -> None:
    """Say how many kernels of a table are no events of the trace; of a trace that is damaged they are events now."""
    trace, table = files
    if num_long:
        losses.disagree(f"{num_long} kernels last differently in {trace} and {table}; {trace} is taken.")
    if not left:
        return
    time = sum(kernel.duration_ns for kernel in left) / 1000
    is_taken = trace in losses.damaged
    outcome = f"{trace} is damaged, so they are taken from the table" if is_taken else "they are left out"
    losses.disagree(f"{len(left)} kernels of {table}, {time:.3f} us, are no events of {trace}: {outcome}.")
    if is_taken:
        add_kernels(columns, left)


def operators(roles: Roles, kernels: Sequence[Kernel], losses: Losses) -> None:
    """Check the table of kernels against its sums by type. Raises OSError."""
    theirs = statistics.sums(roles["operators"], statistics.OPERATORS, losses)
    mine: Sums = {}
    for kernel in kernels:
        if kernel.type and kernel.kind == Kind.KERNEL:
            add(mine, kernel.type, kernel.duration_ns)
    if mine and theirs:
        compare(Side(roles.name("kernels"), mine), Side(roles.name("operators"), theirs), "operator type", losses)


def calls(roles: Roles, columns: EventColumns, events_file: str, losses: Losses) -> None:
    """Check CANN's calls against their sums. Raises OSError.

    A trace has fewer layers of calls than the sums at most levels of the profiler: names that both have are compared.
    """
    theirs = statistics.sums(roles["calls"], statistics.CALLS, losses)
    mine: Sums = {}
    for number, lane, duration in zip(columns.name, columns.lane, columns.duration_ns, strict=True):
        if columns.lanes[lane].process == "CANN":
            add(mine, columns.names[number].rpartition("@")[2], duration)
    shared = set(mine) & set(theirs)
    if shared:
        one, other = ({name: sums[name] for name in shared} for sums in (mine, theirs))
        compare(Side(events_file, one), Side(roles.name("calls"), other), "call", losses)


def host(roles: Roles, columns: EventColumns, events_file: str, losses: Losses) -> None:
    """Check the framework's operators against their table. Raises OSError."""
    theirs: Sums = {}
    for path in roles["host"]:
        for row in tables.rows(path, _HOST, ("name", "time"), losses):
            time = row.ns("time")
            if time is None:
                losses.passed_over(path.name, "their host time is no number")
                continue
            add(theirs, row.text("name"), time)
    mine: Sums = {}
    python = {index for index, lane in enumerate(columns.lanes) if lane.side == "host" and lane.process != "CANN"}
    for number, lane, kind, duration in zip(columns.name, columns.lane, columns.kind, columns.duration_ns, strict=True):
        if lane in python and kind not in (Kind.PYTHON, Kind.STEP) and columns.names[number] in theirs:
            add(mine, columns.names[number], duration)
    if mine and theirs:
        compare(Side(events_file, mine), Side(roles.name("host"), theirs), "operator", losses)


def shares(roles: Roles, kernels: Sequence[Kernel], losses: Losses) -> dict[str, str]:
    """Check the steps' time of computing against the kernels; return the table as a fact. Raises OSError."""
    found = [share for path in roles["shares"] for share in step_tables.shares(path, losses)]
    spans: dict[tuple[int, int], list[Kernel]] = {}
    for kernel in kernels:
        if kernel.kind == Kind.KERNEL:
            spans.setdefault((kernel.device, kernel.step), []).append(kernel)
    off = [share for share in found if _is_off(share, spans.get((share.device, share.step), []))]
    if off:
        losses.disagree(
            f"{roles.name('shares')} and {roles.name('kernels')} disagree on the time of computing of {len(off)} of "
            f"{len(found)} steps: {off[0].computing_ns / 1000:.3f} us of step {off[0].step} in the first."
        )
    return {"step_trace_time": step_tables.as_fact(found)} if found else {}


def _is_off(share: Share, kernels: Sequence[Kernel]) -> bool:
    if not kernels or share.step < 0:
        return False
    starts = np.array([kernel.start_ns for kernel in kernels], np.int64)
    total = Spans.of(starts, starts + np.array([kernel.duration_ns for kernel in kernels], np.int64)).total_ns
    return abs(total - share.computing_ns) > max(_OFF_NS, _OFF_SHARE * max(total, share.computing_ns))


def absent(columns: EventColumns, has: Mapping[str, bool], sentences: Mapping[str, str]) -> dict[str, str]:
    """Return the sentences about what is not there: `has` says what the reader knows, the details tell the rest."""
    found = {
        "shapes": any(detail.shapes for detail in columns.details),
        "stacks": any(detail.stack for detail in columns.details),
        "device": any(lane.side == "device" for lane in columns.lanes),
        "host": any(lane.side == "host" for lane in columns.lanes),
        **has,
    }
    return {name: sentence for name, sentence in sentences.items() if not found.get(name, False)}
