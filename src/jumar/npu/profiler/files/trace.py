"""trace_view.json: host, CANN and device as tracks of a Chrome trace, with arrows from each call to its kernels.

As the vendor's it is a list of events whose `ts` is text. One event more than the vendor's, the metadata event
`jumar_estimate`, says that the times are estimates.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jumar.npu.profiler.collect.collected import HostRow, KernelRow, Profile
from jumar.npu.profiler.collect.estimate_mark import estimate_mark
from jumar.npu.profiler.experimental_config import ProfilerLevel
from jumar.npu.profiler.files.kernels import API_NS
from jumar.npu.profiler.files.overlap import Overlap, devices
from jumar.npu.profiler.files.tables import Span, us, us_text

Event = dict[str, Any]
_CANN, _HARDWARE, _COMMUNICATION, _OVERLAP, _MSTX, _GC = 1, 2, 3, 4, 5, 6
_MODEL_ID = 4294967295


class Trace:
    """Makes the events of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._pid = os.getpid()

    def events(self) -> Iterator[Event]:
        """Yield every event."""
        profile = self._profile
        mark = {"ph": "M", "name": "jumar_estimate", "pid": self._pid, "tid": 0, "args": estimate_mark(profile)}
        yield mark
        if profile.has_host:
            yield from self._host()
        if profile.marks:
            yield from self._marks()
        if profile.has_device:
            if profile.level in (ProfilerLevel.Level1, ProfilerLevel.Level2):
                yield from self._cann()
            for device in devices(profile):
                yield from self._device(device)
            if profile.has_host:
                yield from self._to_device()

    def _process(self, pid: int, name: str, label: str, order: int, threads: dict[int, str]) -> Iterator[Event]:
        for kind, args in (
            ("process_name", {"name": name}),
            ("process_labels", {"labels": label}),
            ("process_sort_index", {"sort_index": order}),
        ):
            yield {"ph": "M", "name": kind, "pid": pid, "tid": 0, "args": args}
        for tid, thread in threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}

    def _pid_of(self, order: int, device: int = 0) -> int:
        return (self._pid << 10) | (order << 5) | device

    def _ts(self, at_ns: int) -> str:
        return us_text(self._profile.epoch_ns, at_ns)

    def _span(self, name: str, pid: int, tid: int, span: Span, args: Event, cat: str = "") -> Event:
        event: Event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": self._ts(span[0])}
        event |= {"dur": us(span[1] - span[0]), "args": args}
        return event | {"cat": cat} if cat else event

    def _flow(
        self, name: str, cat: str, number: str, start: tuple[int, int, int], end: tuple[int, int, int]
    ) -> list[Event]:
        """Return an arrow; its ends are (pid, tid, time)."""
        shared = {"bp": "e", "name": name, "id": number, "cat": cat}
        return [
            {"ph": phase, **shared, "pid": pid, "tid": tid, "ts": self._ts(at_ns)}
            for phase, (pid, tid, at_ns) in (("s", start), ("f", end))
        ]

    def _host(self) -> Iterator[Event]:
        rows = self._profile.host
        threads = {row.thread: f"Thread {row.thread}" for row in rows if row.kind != "gc"}
        yield from self._process(self._pid, "Python", "CPU", 0, threads)
        collections = [row for row in rows if row.kind == "gc"]
        if collections:
            pid = self._pid_of(_GC)
            yield from self._process(pid, "Python GC", "CPU", 1, {row.thread: "Python GC" for row in collections})
        for row in rows:
            pid = self._pid_of(_GC) if row.kind == "gc" else self._pid
            cat = {"gc": "GC", "python_function": "python_function"}.get(row.kind, "cpu_op")
            yield self._span(row.name, pid, row.thread, (row.start_ns, row.end_ns), _host_args(row), cat)
        yield from self._forward_backward()

    def _forward_backward(self) -> Iterator[Event]:
        """Arrows from an operator to the node of autograd that is its backward, in another thread."""
        forward: dict[int, HostRow] = {}
        for row in sorted(self._profile.host, key=lambda row: row.start_ns):
            if row.sequence < 0:
                continue
            if row.forward_thread == 0:
                forward[row.sequence] = row
                continue
            start = forward.pop(row.sequence, None)
            if start is not None and start.thread != row.thread:
                ends = ((self._pid, start.thread, start.start_ns), (self._pid, row.thread, row.start_ns))
                yield from self._flow("fwdbwd", "fwdbwd", str(row.sequence), *ends)

    def _marks(self) -> Iterator[Event]:
        pid = self._pid_of(_MSTX)
        threads = {mark.thread % 2**31: mark.domain for mark in self._profile.marks}
        yield from self._process(pid, "MSTX", "CPU", 2, threads)
        for mark in self._profile.marks:
            args = {"domain": mark.domain, "on_device": mark.on_device}
            yield self._span(mark.message, pid, mark.thread % 2**31, (mark.start_ns, mark.end_ns), args, "mstx")

    def _cann(self) -> Iterator[Event]:
        pid = self._pid_of(_CANN)
        yield from self._process(pid, "CANN", "CPU", _CANN, {self._pid: f"Thread {self._pid}"})
        for kernel in _first_kernels(self._profile):
            name = "aclrtMemcpyAsync" if kernel.core == "MEMCPY_ASYNC" else kernel.api
            args = {
                "Thread Id": self._pid,
                "Mode": "ACL_OP",
                "level": "acl",
                "id": name,
                "connection_id": kernel.operator,
            }
            begin = kernel.launch_ns - API_NS
            yield self._span(f"AscendCL@{name}", pid, self._pid, (begin, kernel.launch_ns), args)
            ends = ((pid, self._pid, begin), (*self._place(kernel), kernel.start_ns))
            yield from self._flow("HostToDevice", "HostToDevice", str(kernel.operator), *ends)

    def _place(self, kernel: KernelRow) -> tuple[int, int]:
        order = _COMMUNICATION if kernel.is_communication else _HARDWARE
        return self._pid_of(order, kernel.device), kernel.stream

    def _device(self, device: int) -> Iterator[Event]:
        rows = [row for row in self._profile.kernels if row.device == device]
        streams = {row.stream: f"Stream {row.stream}" for row in rows if not row.is_communication}
        label = f"NPU {device}"
        yield from self._process(self._pid_of(_HARDWARE, device), "Ascend Hardware", label, _HARDWARE, streams)
        groups = {row.stream: "Group group_name_0 Communication" for row in rows if row.is_communication}
        if groups:
            pid = self._pid_of(_COMMUNICATION, device)
            yield from self._process(pid, "Communication", label, _COMMUNICATION, groups)
        for row in rows:
            args = {
                "Model Id": _MODEL_ID, "Task Type": row.core, "Stream Id": row.stream, "Task Id": row.task,
                "Batch Id": 0, "Subtask Id": _MODEL_ID, "connection_id": row.operator, "estimated": True,
            }  # fmt: skip
            yield self._span(row.name, *self._place(row), (row.start_ns, row.end_ns), args)
        yield from self._overlap(device, rows)

    def _overlap(self, device: int, rows: list[KernelRow]) -> Iterator[Event]:
        overlap = Overlap.of(rows)
        named = (
            ("Computing", overlap.computing), ("Communication", overlap.communication),
            ("Communication(Not Overlapped)", overlap.uncovered), ("Free", overlap.free),
        )  # fmt: skip
        pid = self._pid_of(_OVERLAP, device)
        threads = {tid: name for tid, (name, _) in enumerate(named)}
        yield from self._process(pid, "Overlap Analysis", f"NPU {device}", _OVERLAP, threads)
        for tid, (name, spans) in enumerate(named):
            for span in spans:
                yield self._span(name, pid, tid, span, {})

    def _to_device(self) -> Iterator[Event]:
        """Arrows from each call on the host to its kernels."""
        calls = {row.operator: row for row in self._profile.host if row.operator >= 0}
        for kernel in self._profile.kernels:
            call = calls.get(kernel.operator)
            if call is not None:
                number = str(self._profile.epoch_ns + kernel.start_ns)
                ends = ((self._pid, call.thread, call.start_ns), (*self._place(kernel), kernel.start_ns))
                yield from self._flow("torch_to_npu", "async_npu", number, *ends)


def _first_kernels(profile: Profile) -> Iterator[KernelRow]:
    seen = set()
    for kernel in profile.kernels:
        if kernel.operator not in seen:
            seen.add(kernel.operator)
            yield kernel


def _host_args(row: HostRow) -> Event:
    args: Event = {}
    if row.sequence >= 0:
        args |= {"Sequence number": row.sequence, "Fwd thread id": row.forward_thread}
    for name, value in (("Input Dims", row.shapes), ("Input type", row.dtypes), ("Call stack", row.stack)):
        if value:
            args[name] = value
    if row.flops:
        args["flops"] = row.flops
    return args


def write_trace(path: Path, profile: Profile) -> None:
    """Write the trace, one event a line."""
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, event in enumerate(Trace(profile).events()):
            file.write(("\n" if number == 0 else ",\n") + json.dumps(event))
        file.write("\n]\n")
