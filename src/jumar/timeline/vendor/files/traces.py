"""Chrome traces of CANN's profilers: `trace_view.json`, `msprof_*.json`, MindSpore's; the host's part and the chip's.

The tracks have their names in metadata events, which may come last: events are kept until the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.timeline.model.events import Detail, Kind, Lane
from jumar.timeline.model.source import OnProgress
from jumar.timeline.vendor import words
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.text import documents, quantities
from jumar.timeline.vendor.text.losses import Losses

Track = tuple[str, str]
"""Process and thread, as text: CANN writes numbers and texts."""
Place = tuple[str, str, int]
"""Process, thread and begin in nanoseconds: what an arrow's end names."""
_NUMBER = re.compile(r"(\d+)\s*$")
_ANALYSIS = re.compile(r"overlap analysis", re.IGNORECASE)
_DEVICE = re.compile(r"ascend hardware|task scheduler|^npu\b|ai ?core op|ai ?cpu op|^device", re.IGNORECASE)
_COMMUNICATION = re.compile(r"^communication|^hccl|^group .* communication", re.IGNORECASE)
_CANN = re.compile(r"^cann|ascendcl|^acl|^runtime|^ge\b", re.IGNORECASE)
_MARKS = re.compile(r"mstx|msproftx|^scope layer", re.IGNORECASE)
_LAUNCHES = frozenset({"async_npu", "HostToDevice", "hosttodevice"})


@dataclass(frozen=True, slots=True)
class Raw:
    """What is kept of one event until its track has a name."""

    name: str
    category: str
    track: Track
    start_ns: int
    duration_ns: int
    unit: str
    """The chip's unit, of events of the device."""
    detail: Detail | None
    sequence: int


@dataclass(slots=True)
class TraceReader:
    """Reads the traces of one rank into `columns`."""

    columns: EventColumns
    losses: Losses
    device: int = 0
    processes: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    threads: dict[Track, str] = field(default_factory=dict)
    rows: dict[Place, int] = field(default_factory=dict)
    """Row of the host's call or the device's event that begins there."""
    arrows: dict[tuple[str, str], tuple[list[Place], list[Place]]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    analysis_ns: dict[str, int] = field(default_factory=dict)
    """Time of each track of the vendor's overlap analysis."""
    _raw: list[Raw] = field(default_factory=list)
    _lanes: dict[Track, tuple[Lane, str]] = field(default_factory=dict)
    _details: dict[tuple[str, ...], Detail | None] = field(default_factory=dict)

    def read(self, path: Path, on_progress: OnProgress | None = None) -> None:
        """Read one file. Raises OSError."""
        for event in documents.events(path, self.losses, on_progress):
            self._take(path.name, event)

    def finish(self) -> None:
        """Place the events on their tracks, whose names are known when every file is read."""
        for raw in self._raw:
            self._place(raw)
        self._raw.clear()

    def _take(self, file: str, event: dict[str, Any]) -> None:
        match event.get("ph"):
            case "X":
                self._duration(file, event)
            case "M":
                self._metadata(event)
            case "s" | "f" | "t":
                self._arrow(event)
            case "C":
                self._counter(file, event)
            case _:
                pass  # instants and others carry no time of their own

    def _duration(self, file: str, event: dict[str, Any]) -> None:
        start, duration = quantities.nanoseconds(event.get("ts")), quantities.nanoseconds(event.get("dur", 0))
        if start is None or duration is None:
            self.losses.passed_over(file, "their `ts` or `dur` is no number")
            return
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        unit = words.core(str(args.get("Task Type") or args.get("task type") or ""))
        sequence = quantities.integer(args["Sequence number"]) if "Sequence number" in args else None
        self._raw.append(
            Raw(
                str(event.get("name", "")), str(event.get("cat") or ""), _track(event), start, duration, unit,
                self._detail(args, unit) if args else None, -1 if sequence is None else sequence,
            )
        )  # fmt: skip

    def _metadata(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            return
        track = _track(event)
        match event.get("name"):
            case "process_name":
                self.processes[track[0]] = str(args.get("name", ""))
            case "process_labels":
                self.labels[track[0]] = str(args.get("labels", ""))
            case "thread_name":
                self.threads[track] = str(args.get("name", ""))
            case "jumar_estimate":
                self.facts["jumar_estimate"] = str(args.get("made_by", "estimated"))
                self.facts["soc"] = str(args.get("soc", ""))
            case _:
                pass

    def _arrow(self, event: dict[str, Any]) -> None:
        start = quantities.nanoseconds(event.get("ts"))
        category = str(event.get("cat") or "")
        if start is None or category not in _LAUNCHES:
            return
        ends = self.arrows.setdefault((category, str(event.get("id"))), ([], []))
        ends[event.get("ph") != "s"].append((*_track(event), start))

    def _counter(self, file: str, event: dict[str, Any]) -> None:
        start, args = quantities.nanoseconds(event.get("ts")), event.get("args")
        if start is None or not isinstance(args, dict):
            self.losses.passed_over(file, "they are counters without a time or a value")
            return
        for key, text in args.items():
            value = quantities.number(text)
            if value is not None:
                self.columns.builder.count(f"{event.get('name', '')} {key}".strip(), _counter_unit(key), start, value)

    def _place(self, raw: Raw) -> None:
        lane, process = self._lane(raw.track)
        if _ANALYSIS.search(process):
            self.analysis_ns[raw.name] = self.analysis_ns.get(raw.name, 0) + raw.duration_ns
            return
        kind = _kind(raw, process, lane)
        row = self.columns.add(
            raw.start_ns, raw.duration_ns, kind, raw.name, lane, detail=raw.detail, sequence=raw.sequence
        )
        if kind not in (Kind.PYTHON, Kind.STEP):
            self._remember((*raw.track, raw.start_ns), row)

    def _remember(self, place: Place, row: int) -> None:
        """Note which call begins at a place: of calls that begin together, the innermost operator."""
        before = self.rows.get(place)
        lengths, kinds = self.columns.duration_ns, self.columns.kind
        if before is None or (kinds[row] == Kind.RANGE, lengths[row]) <= (kinds[before] == Kind.RANGE, lengths[before]):
            self.rows[place] = row

    def _lane(self, track: Track) -> tuple[Lane, str]:
        if track not in self._lanes:
            process = self.processes.get(track[0], track[0])
            thread = self.threads.get(track, track[1])
            is_device = bool(_DEVICE.search(process) or _COMMUNICATION.search(process))
            device = self._device_of(track[0]) if is_device else -1
            name = thread if not thread.isdigit() else f"{'Stream' if is_device else 'Thread'} {thread}"
            self._lanes[track] = Lane(name, process, "device" if is_device else "host", device), process
        return self._lanes[track]

    def _device_of(self, process: str) -> int:
        """Return the number of the device behind a track, which its label tells: `NPU 3`."""
        found = _NUMBER.search(self.labels.get(process, ""))
        return int(found[1]) if found and len(found[1]) < 6 else self.device

    def _detail(self, args: Mapping[str, Any], unit: str) -> Detail | None:
        key = (
            str(args.get("Input Dims", "")), str(args.get("Input type", "")), str(args.get("Call stack", "")),
            str(args.get("Module Hierarchy", "")), unit, str(args.get("Stream Id", "")), str(args.get("size(B)", "")),
            str(args.get("operation", "")),
        )  # fmt: skip
        if key not in self._details:
            self._details[key] = self._made(args, unit) if any(key) else None
        return self._details[key]

    def _made(self, args: Mapping[str, Any], unit: str) -> Detail:
        pairs = [(words.CORE, unit)] if unit else []
        pairs += [(name, str(args[name])) for name in ("size(B)", "operation") if name in args]
        return Detail(
            shapes=words.shapes(args.get("Input Dims", "")),
            dtypes=words.listed(args.get("Input type", "")),
            stack=words.users_frame(str(args.get("Call stack", ""))),
            module=str(args.get("Module Hierarchy", "")),
            more=self.columns.more(pairs),
        )


def _track(event: Mapping[str, Any]) -> Track:
    return str(event.get("pid", "")), str(event.get("tid", ""))


def _counter_unit(key: str) -> str:
    text = key.lower()
    return "%" if "%" in text or "ratio" in text else "MHz" if "mhz" in text else "KB" if "kb" in text else "count"


def _kind(raw: Raw, process: str, lane: Lane) -> Kind:
    if _COMMUNICATION.search(process):
        return Kind.OTHER if lane.name.lower().startswith("plane") else Kind.COLLECTIVE
    if lane.side == "device":
        return words.device_kind(raw.name, raw.unit)
    if process == "Python GC" or raw.category == "GC":
        return Kind.COLLECTOR
    if _CANN.search(process):
        return words.runtime_kind(raw.name)
    if process == "CPU OP":
        return Kind.OPERATOR
    return Kind.RANGE if _MARKS.search(process) else words.host_kind(raw.name, raw.category)
