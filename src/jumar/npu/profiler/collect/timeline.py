"""Make the estimated timeline of the watched operators.

The device's clock is the time model's. The host's clock is too: an operator of the emulator computes on the
CPU where an NPU's host would only issue it, so measured times mean nothing. Each operator's call is given the
model's host time; what the program does between operators counts as measured where it is long (loading data,
sleeping), and not at all where it is short, because the model's host time has Python's part in it. Everything
else on the host - modules, ranges, autograd nodes, marks - is carried along by that change of clock.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.npu.profiler.collect.collected import HostRow, KernelRow, MarkRow, MemoryRow, Profile, StepRow
from jumar.npu.profiler.collect.collector import OperatorSeen, Watched
from jumar.npu.profiler.collect.names import api_name, dtype_names, format_names, kernel_name, shape_text
from jumar.soc.estimate import Cost, KernelSpan, Software, Timeline, operator_cost
from jumar.soc.profiles import SocProfile

PROGRAM_GAP_US = 1000.0
"""What the program does between two operators counts from this length on (assumed)."""
COMPUTE_STREAM, COMMUNICATION_STREAM = 2, 3
_STEP = "ProfilerStep#"
_EMULATOR = "jumar/npu/"


@dataclass(frozen=True, slots=True)
class Clock:
    """Measured time to estimated time, both in nanoseconds: pieces of straight lines through known points."""

    measured: Sequence[int]
    estimated: Sequence[int]

    def at(self, measured_ns: int) -> int:
        """Return the estimated time; before the first and after the last point time runs as measured."""
        position = bisect.bisect_right(self.measured, measured_ns)
        if position == 0:
            return max(0, self.estimated[0] - (self.measured[0] - measured_ns))
        if position == len(self.measured):
            return self.estimated[-1] + (measured_ns - self.measured[-1])
        before, after = self.measured[position - 1], self.measured[position]
        low, high = self.estimated[position - 1], self.estimated[position]
        return low + (high - low) * (measured_ns - before) // max(1, after - before)


@dataclass(slots=True)
class Played:
    """The operators, played on the model's timeline."""

    timeline: Timeline
    clock: Clock
    operators: list[OperatorSeen]
    costs: list[Cost]
    spans: list[tuple[float, float]]
    """On the host, of each operator."""
    step_names: list[str]


def play(watched: Watched, profile: SocProfile, soft: Software) -> Played:
    """Let the model's host issue what was watched, in order."""
    timeline = Timeline(soft.prices)
    points = [(watched.start_ns, 0)]
    operators, costs, spans, names = [], [], [], []
    last_ns = watched.start_ns
    for item in watched.seen:
        gap_us = (item.start_ns - last_ns) / 1e3
        if gap_us >= PROGRAM_GAP_US:
            timeline.program(gap_us)
        last_ns = item.start_ns
        if not isinstance(item, OperatorSeen):
            timeline.step(item.name)
            names.append(item.name)
            points.append((item.start_ns, _ns(timeline.host_us)))
            continue
        cost = operator_cost(item.shape, profile, soft)
        start, end = timeline.issue(cost, compiled=item.compiled, device=item.device)
        points += [(item.start_ns, _ns(start)), (item.told_ns, _ns(end))]
        last_ns = item.told_ns
        operators.append(item)
        costs.append(cost)
        spans.append((start, end))
    gap_us = (watched.end_ns - last_ns) / 1e3
    if gap_us >= PROGRAM_GAP_US:
        timeline.program(gap_us)
    points.append((watched.end_ns, _ns(timeline.host_us)))
    return Played(timeline, _clock(points), operators, costs, spans, names)


def _clock(points: Iterable[tuple[int, int]]) -> Clock:
    """Operators of several threads may overlap: points are put in order, and time never runs back."""
    measured: list[int] = []
    estimated: list[int] = []
    for real, model in sorted(points):
        measured.append(real)
        estimated.append(max(model, estimated[-1] if estimated else 0))
    return Clock(measured, estimated)


def _ns(microseconds: float) -> int:
    return round(microseconds * 1e3)


def build(watched: Watched, profile: SocProfile, soft: Software, made: Profile) -> None:
    """Fill `made` with the rows of what was watched."""
    played = play(watched, profile, soft)
    made.assumed = sorted({text for cost in played.costs for text in cost.assumed})
    made.steps = _steps(played)
    made.kernels = _kernels(played, soft) if made.has_device else []
    if made.has_host:
        made.host = _host(watched, played) + [
            HostRow("GC", "gc", thread, played.clock.at(start), played.clock.at(end), -1, 0, "", "", "", -1)
            for start, end, thread in watched.collections
        ]
    made.marks = [_mark(record, played.clock) for record in watched.marks]
    made.memory = [_memory(one, played.clock) for one in watched.allocations] if made.has_memory else []


def _steps(played: Played) -> list[StepRow]:
    found = []
    times = played.timeline.steps()
    for position, step in enumerate(times):
        following = times[position + 1] if position + 1 < len(times) else None
        begin = _ns(step.start_us)
        host_end = _ns(step.end_us if following is None else following.start_us)
        found.append(StepRow(step.name, begin, host_end, _ns(step.end_us)))
    return found


def _kernels(played: Played, soft: Software) -> list[KernelRow]:
    return [_kernel(played, soft, span, task) for task, span in enumerate(played.timeline.device)]


def _kernel(played: Played, soft: Software, span: KernelSpan, task: int) -> KernelRow:
    seen, kernel = played.operators[span.operator], span.kernel
    api = api_name(seen.shape.name, soft.is_aclnn)
    inputs = kernel.inputs if kernel is not None else ()
    outputs = kernel.outputs if kernel is not None else ()
    read, written = sum(item.stored_bytes for item in inputs), sum(item.stored_bytes for item in outputs)
    hf32 = soft.allow_hf32_convolution if "conv" in seen.shape.name else soft.allow_hf32_matmul
    communication = span.stream == "communication"
    return KernelRow(
        operator=span.operator,
        name=kernel_name(api, span.name, soft.is_aclnn, task),
        type=span.name,
        core=kernel.core if kernel is not None else "MEMCPY_ASYNC",
        start_ns=_ns(span.start_us),
        end_ns=_ns(span.end_us),
        wait_ns=_ns(span.wait_us),
        stream=COMMUNICATION_STREAM if communication else COMPUTE_STREAM,
        task=task,
        device=span.device,
        step=span.step,
        blocks=kernel.num_blocks if kernel is not None else 0,
        is_dynamic=soft.is_aclnn,
        is_hf32=bool(
            hf32 and kernel is not None and kernel.cube_us and any(item.dtype == "float32" for item in inputs)
        ),
        input_shapes=shape_text(inputs),
        input_dtypes=dtype_names(inputs),
        input_formats=format_names(inputs),
        output_shapes=shape_text(outputs),
        output_dtypes=dtype_names(outputs),
        output_formats=format_names(outputs),
        cube_ns=_ns(kernel.cube_us) if kernel is not None else 0,
        vector_ns=_ns(kernel.vector_us) if kernel is not None else 0,
        scalar_ns=_ns(kernel.scalar_us) if kernel is not None else 0,
        memory_ns=_ns(kernel.memory_us) if kernel is not None else 0,
        read_share=read / (read + written) if read + written else 0.0,
        num_bytes=seen.shape.transfer_bytes or (read if communication else read + written),
        is_communication=communication,
        api=api,
        launch_ns=_ns(played.spans[span.operator][1]),
        role=kernel.role if kernel is not None else "operator",
    )


def _host(watched: Watched, played: Played) -> list[HostRow]:
    """Return PyTorch's events without what the CPU, or the emulator, did inside a device's operator."""
    inside = _Inside(played.operators)
    seen = []
    for event in watched.host_events:
        start, end = event.start_ns() - watched.epoch_ns, event.end_ns() - watched.epoch_ns
        if end < watched.start_ns or start > watched.end_ns or inside.hides(start, end) or _is_own(event):
            continue
        seen.append((max(start, watched.start_ns), min(end, watched.end_ns), event))
    seen.sort(key=lambda item: (item[0], -item[1]))
    return [
        _host_row(event, played, inside.operator_of(event.name(), start, end), start, end, stack)
        for (start, end, event), stack in zip(seen, _stacks(seen), strict=True)
    ]


def _is_frame(event: Any) -> bool:
    """Return whether an event is a call of a Python function: the profiler tells those from torch 2.10 on."""
    return hasattr(event, "is_python_function") and bool(event.is_python_function())


def _is_own(event: Any) -> bool:
    """Return whether a frame is of the emulator, or a built-in function's: neither says where the program is."""
    return _is_frame(event) and (_EMULATOR in event.name() or event.name().startswith("<built-in"))


def _stacks(seen: Sequence[tuple[int, int, Any]]) -> list[str]:
    """Return for each event, in order of start, the Python frames around it in its thread, the innermost first."""
    open_frames: dict[int, list[tuple[int, str]]] = {}
    stacks = []
    for start, end, event in seen:
        frames = open_frames.setdefault(event.start_thread_id(), [])
        while frames and frames[-1][0] <= start:
            frames.pop()
        stacks.append(";\r\n".join(name for _, name in reversed(frames)))
        if _is_frame(event):
            frames.append((end, event.name()))
    return stacks


class _Inside:
    """Finds the operator that a host event belongs to."""

    def __init__(self, operators: Sequence[OperatorSeen]) -> None:
        order = sorted(range(len(operators)), key=lambda number: operators[number].start_ns)
        self._numbers = order
        self._starts = [operators[number].start_ns for number in order]
        self._operators = operators

    def hides(self, start_ns: int, end_ns: int) -> bool:
        """Return whether the event lies within an operator's own run on the CPU."""
        position = bisect.bisect_right(self._starts, start_ns) - 1
        return position >= 0 and end_ns <= self._operators[self._numbers[position]].end_ns

    def operator_of(self, name: str, start_ns: int, end_ns: int) -> int:
        """Return the number of the operator whose call this event is, -1 for none: it holds it and is called so."""
        position = bisect.bisect_left(self._starts, start_ns)
        if position == len(self._starts):
            return -1
        seen = self._operators[self._numbers[position]]
        is_call = seen.end_ns <= end_ns and seen.shape.name.partition(".")[0] == name
        return self._numbers[position] if is_call else -1


def _host_row(event: Any, played: Played, operator: int, start_ns: int, end_ns: int, stack: str) -> HostRow:
    shapes = event.shapes() if event.shapes() else []
    kind = "python_function" if _is_frame(event) else "cpu_op"
    if event.is_user_annotation() and not event.name().startswith(_STEP):
        kind = "user_annotation"
    return HostRow(
        event.name(),
        kind,
        event.start_thread_id(),
        played.clock.at(start_ns),
        played.clock.at(end_ns),
        event.sequence_nr(),
        event.fwd_thread_id(),
        ";".join(",".join(map(str, _flat(shape))) for shape in shapes),
        ";".join(event.dtypes()) if shapes else "",
        "" if kind == "python_function" else stack,
        operator,
        int(event.flops() or 0),
    )


def _flat(shape: Any) -> list[int]:
    return [item for item in shape if isinstance(item, int)] if isinstance(shape, (list, tuple)) else []


def _mark(record: Any, clock: Clock) -> MarkRow:
    thread = record.thread_id if record.thread_id != threading.main_thread().ident else 1
    return MarkRow(
        record.message,
        record.domain,
        thread,
        clock.at(record.start_ns),
        clock.at(record.end_ns),
        record.stream_id is not None,
    )


def _memory(one: Any, clock: Clock) -> MemoryRow:
    end = clock.at(one.end_ns) if one.end_ns >= 0 else -1
    return MemoryRow(
        one.name, one.size_bytes, clock.at(one.start_ns), end, one.allocated, one.reserved, one.end_allocated,
        one.end_reserved, one.device,
    )  # fmt: skip
