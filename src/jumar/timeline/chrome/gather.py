"""`Gathering`: all events of a Kineto trace with their arguments -> a `Timeline`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.base.errors import InputError
from jumar.operators.traits import has
from jumar.timeline.chrome import decode, stacks
from jumar.timeline.chrome.beside import facts_beside
from jumar.timeline.chrome.clock import NO_TIME, nanoseconds
from jumar.timeline.chrome.columns import Columns, Numbering
from jumar.timeline.model import nesting
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.model.events import Detail, Integers, Kind, Lane, Timeline
from jumar.timeline.model.source import Source
from jumar.timeline.model.steps import find_steps

DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 15: "mtia", 20: "npu"}
"""Numbers of c10/core/DeviceType.h. 20 is PrivateUse1, which is the NPU's."""
KEPT = {
    "Input Strides": "strides", "Collective name": "collective", "In msg nelems": "in_elements",
    "Out msg nelems": "out_elements", "dtype": "dtype", "Group size": "group_size", "Process Group Name": "group",
}  # fmt: skip
"""Fields of `Detail.more`, and their attributes of an event's arguments."""
DETAILS = ("dims", "types", "stack", "module", *KEPT.values())
fields_of = attrgetter(*DETAILS)
NO_NUMBER = 2**63
EPOCH_NS = 10**18
"""Times beyond it are since 1970: 2001 and later. A clock since the start of a machine is behind it."""
HOW = {
    "shapes": "the trace has no shapes of inputs: profile with record_shapes=True",
    "stacks": "the trace has no Python stacks: profile with with_stack=True",
    "device": "the trace has no events of a device: profile with ProfilerActivity.CUDA or that of the NPU",
    "memory": "the trace has no events of memory: profile with profile_memory=True",
    "steps": "the trace has no step marks: give the profiler a schedule and call its step() once a step",
}
"""What a trace may lack, and how to get it."""


UNITS = {"bytes", "%", "processes", "threads", "ms", "MHz"}
"""Arguments of a counter that are a unit, as `jumar profile` and `write_trace` name them."""


class Gathering:
    """Takes lists of events of one file, in their order."""

    def __init__(self) -> None:
        self._columns = Columns()
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._details: Numbering[tuple[bytes, ...]] = Numbering()
        self._labels: dict[tuple[str, Any, Any], str] = {}
        self._devices: dict[int, int] = {}
        self._builder = TimelineBuilder()

    def take(self, events: Sequence[Any]) -> None:
        """Take a list of events with arguments. Raises NeedsDecimals where its times must be read exactly."""
        batch = self._columns.take(events)
        rows = [event.args for event in batch.events]
        self._parts.append((
            batch.start_ns, batch.duration_ns, batch.kind, batch.pair, batch.lane, self._detail(rows),
            _whole([row and row.correlation for row in rows], 0), _whole([row and row.external for row in rows], 0),
            _whole([row and row.sequence for row in rows], -1),
        ))  # fmt: skip
        for index in np.flatnonzero(batch.lane % 2).tolist():
            number = rows[index] and rows[index].device
            self._devices.setdefault(int(batch.lane[index]), number if isinstance(number, int) else -1)
        for event in events:
            if event.ph == "X" or event.args is None:
                continue
            if event.ph == "M":
                text = _text(event.args.name) or _text(event.args.labels)
                self._labels[str(event.name), event.pid, event.tid] = text
            elif event.ph == "C":
                self._take_counter(event)
            elif event.name == "[memory]":
                self._take_memory(event)

    def timeline(self, source: Source, head: Mapping[str, Any], lost: Sequence[str]) -> Timeline:
        """Return the timeline. Raises InputError where the file has no events."""
        if not sum(len(part[0]) for part in self._parts):
            raise no_events(source, lost)
        starts, durations, kinds, pairs, lanes, details, correlations, externals, sequences = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        self._parts.clear()
        builder, names = self._builder, [str(name) for _, name in self._columns.pairs]
        self._mark_waits(starts, durations, kinds, pairs, lanes, names)
        details = self._with_stacks(details, *self._frames(starts, durations, pairs, lanes, names))
        name_of = np.array([builder.name(name) for name in names])
        used, lane_of = np.unique(lanes, return_inverse=True)
        lane_of = np.array([builder.lane(self._lane(number)) for number in used.tolist()])[lane_of]
        linked = correlations if correlations.any() else externals
        builder.extend(
            start_ns=starts, duration_ns=durations, kind=kinds, name=name_of[pairs], lane=lane_of,
            detail=details, link=linked, sequence=sequences,
        )  # fmt: skip
        builder.lost += [*lost, *self._columns.lost()]
        return complete(builder.build(source=str(source.path), format=source.format), source, head)

    def _detail(self, rows: Sequence[Any]) -> Integers:
        numbers = self._details
        found = [-1 if row is None else numbers[tuple(map(bytes, fields_of(row)))] for row in rows]
        return np.array(found, np.int64)

    def _take_counter(self, event: Any) -> None:
        time, numbers = int(nanoseconds([event.ts])[0]), event.args.numbers
        for key, value in numbers.items() if time != NO_TIME else ():
            name = str(event.name) if len(numbers) == 1 else f"{event.name} {key}"
            self._builder.count(name, key if key in UNITS else "count", time, value)

    def _take_memory(self, event: Any) -> None:
        time = int(nanoseconds([event.ts])[0])
        device = DEVICE_TYPES.get(event.args.device_type, "device")
        place = device if device == "cpu" else f"{device}:{event.args.device_id}"
        for name, value in (("memory", event.args.allocated), ("reserved", event.args.reserved)):
            if time != NO_TIME and isinstance(value, int) and (name == "memory" or device != "cpu"):
                self._builder.count(f"{name} {place}", "bytes", time, value)

    @staticmethod
    def _mark_waits(
        starts: Integers, durations: Integers, kinds: Any, pairs: Integers, lanes: Integers, names: Sequence[str]
    ) -> None:
        """Turn the operators that wait for a device's value into waits, in place."""
        if not (kinds == Kind.WAIT).any():
            return
        rows = np.flatnonzero(kinds != Kind.PYTHON)
        rows = rows[nesting.in_order(lanes[rows], starts[rows], durations[rows])]
        holders = nesting.parents(lanes[rows], starts[rows], durations[rows])
        reads = np.array([has(name, "to_host") for name in names])[pairs[rows]]
        kinds[rows[nesting.that_wait(holders, kinds[rows], reads & (kinds[rows] == Kind.OPERATOR))]] = Kind.WAIT

    def _frames(
        self, starts: Integers, durations: Integers, pairs: Integers, lanes: Integers, names: Sequence[str]
    ) -> tuple[Integers, Sequence[str]]:
        """Return for each event the number of the innermost own function around it, and their lines."""
        lines = [
            stacks.own_line(name) if category == "python_function" else ""
            for name, (category, _) in zip(names, self._columns.pairs, strict=True)
        ]
        if not any(lines):
            return np.full(len(pairs), -1), lines
        return stacks.calling_lines(starts, durations, lanes, pairs, np.array([bool(line) for line in lines])), lines

    def _with_stacks(self, details: Integers, frames: Integers, lines: Sequence[str]) -> Integers:
        """Return the details of the builder: those of the file, with the line of the user's code."""
        combined, places = np.unique(np.stack((details, frames)), axis=1, return_inverse=True)
        known = [*map(_detail_of, self._details), Detail()]  # the last one for the index -1
        texts = [*lines, ""]
        numbers = [self._builder.detail(_on_line(known[detail], texts[frame])) for detail, frame in combined.T.tolist()]
        nothing = self._builder.detail(Detail())
        found = np.array(numbers, np.int64)[places.reshape(-1)]
        return np.where(found == nothing, -1, found)

    def _lane(self, number: int) -> Lane:
        process, thread = list(self._columns.places)[self._columns.place_of(number)]
        name = self._labels.get(("thread_name", process, thread), "").strip()
        if self._columns.side_of(number) == "host":
            return Lane(name or f"thread {thread}", str(process), "host")
        device = self._devices.get(number, -1)
        device = device if device >= 0 else process if isinstance(process, int) else 0
        return Lane(name or f"stream {thread}", str(process), "device", device)


def no_events(source: Source, lost: Sequence[str]) -> InputError:
    """Return the error of a trace without events."""
    why = "; ".join(lost) or "its list of events is empty"
    return InputError(f"{source.path} has no events with a begin and a length ({why}): name another trace")


def complete(timeline: Timeline, source: Source, head: Mapping[str, Any]) -> Timeline:
    """Return the timeline with its steps, and with what the fields around the events tell."""
    steps, origin = find_steps(timeline.events, timeline.names)
    base = head.get("baseTimeNanoseconds")
    world = head.get("distributedInfo")
    world = world if isinstance(world, dict) else {}
    devices = head.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    rank = world.get("rank", source.rank)
    start = timeline.origin_ns + (base if isinstance(base, int) else 0)
    facts = {key: str(value) for key, value in head.items() if isinstance(value, str | int | float)}
    if isinstance(first.get("totalGlobalMem"), int):
        facts["device_memory_bytes"] = str(first["totalGlobalMem"])
    facts |= facts_beside(source.path, rank if isinstance(rank, int) else 0)
    full = replace(
        timeline, steps=steps, steps_from=origin, origin_ns=start if start > EPOCH_NS else 0, facts=facts,
        rank=rank if isinstance(rank, int) else 0, num_ranks=max(_number(world.get("world_size")), 1),
        device=_device(timeline), device_name=str(first.get("name", "")),
    )  # fmt: skip
    return replace(full, absent={key: HOW[key] for key in _absent(full)})


def _absent(timeline: Timeline) -> list[str]:
    has_any = {
        "shapes": any(detail.shapes for detail in timeline.details),
        "stacks": any(detail.stack for detail in timeline.details),
        "device": any(lane.side == "device" for lane in timeline.lanes),
        "memory": any(counter.name.startswith("memory") for counter in timeline.counters),
        "steps": timeline.steps_from == "marks",
    }
    return [name for name, is_there in has_any.items() if not is_there]


def _device(timeline: Timeline) -> str:
    """Return what the events of the device's side ran on, by the names of the runtime's calls."""
    if not any(lane.side == "device" for lane in timeline.lanes):
        return "cpu"
    calls = {timeline.names[index] for index in np.unique(timeline.events.name[timeline.of(Kind.RUNTIME, Kind.WAIT)])}
    for prefix, device in (("cu", "cuda"), ("hip", "cuda"), ("acl", "npu"), ("rt", "npu")):
        if any(call.startswith(prefix) for call in calls):
            return device
    return next((counter.name.split()[-1].split(":")[0] for counter in timeline.counters if ":" in counter.name), "")


def _detail_of(raw: tuple[bytes, ...]) -> Detail:
    texts = dict(zip(DETAILS, raw, strict=True))
    return Detail(
        shapes=_json(texts["dims"]), dtypes=_json(texts["types"]), stack=stacks.own_line_of(_text(texts["stack"])),
        module=_text(texts["module"]),
        more=tuple((key, _text(texts[name])) for key, name in KEPT.items() if texts[name]),
    )  # fmt: skip


def _on_line(detail: Detail, line: str) -> Detail:
    return detail if detail.stack or not line else replace(detail, stack=line)


def _json(raw: bytes) -> str:
    """Return JSON text in one form, whatever spaces its writer set; nothing for an empty list."""
    return json.dumps(value) if raw and (value := decode.loosely(raw)) else ""


def _text(raw: Any) -> str:
    value = decode.loosely(bytes(raw)) if raw else ""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)


def _whole(values: Sequence[Any], missing: int) -> Integers:
    return np.fromiter([_number(value, missing) for value in values], np.int64, len(values))


def _number(value: Any, missing: int = 0) -> int:
    return value if type(value) is int and abs(value) < NO_NUMBER else missing
