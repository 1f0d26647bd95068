"""How computing, communication and idling share each device's time: the trace's overlap analysis and the step table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.npu.profiler.collect.collected import KernelRow, Profile
from jumar.npu.profiler.files.tables import Span, difference, gaps, length, us, write_csv
from jumar.soc.estimate.timeline import union

HEADERS = (
    "Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
    "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overlap:
    """Unions of spans of one device, in nanoseconds."""

    computing: list[Span]
    communication: list[Span]
    uncovered: list[Span]
    free: list[Span]

    @classmethod
    def of(cls, kernels: list[KernelRow]) -> Overlap:
        """Sort out the kernels of one device; copies between host and device count as neither."""
        own = [row for row in kernels if row.core != "MEMCPY_ASYNC"]
        computing = union((row.start_ns, row.end_ns) for row in own if not row.is_communication)
        communication = union((row.start_ns, row.end_ns) for row in own if row.is_communication)
        busy = union([*computing, *communication])
        return cls(computing, communication, difference(communication, computing), gaps(busy))


def devices(profile: Profile) -> list[int]:
    """Return the devices that ran something."""
    return sorted({row.device for row in profile.kernels})


def write_step_trace(path: Path, profile: Profile) -> None:
    """Write step_trace_time.csv, in microseconds: one row a device and step, one a device where no step was marked.

    On the device a step lasts from its first kernel to the first of the next step, so that waiting for data
    at the end of a step is in its Free.
    """
    rows = []
    for device in devices(profile):
        own = [row for row in profile.kernels if row.device == device and row.core != "MEMCPY_ASYNC"]
        begins = {name: min((row.start_ns for row in own if row.step == name), default=-1) for name in _names(profile)}
        order = [name for name, begin in begins.items() if begin >= 0]
        for position, name in enumerate(order):
            following = begins[order[position + 1]] if position + 1 < len(order) else 0
            kernels = [row for row in own if row.step == name] if profile.steps else own
            rows.append(_row(profile, device, name, kernels, following))
    write_csv(path, HEADERS, rows)


def _names(profile: Profile) -> list[str]:
    return [step.step for step in profile.steps] or [""]


def _row(profile: Profile, device: int, step: str, kernels: list[KernelRow], following_ns: int) -> list[Any]:
    overlap = Overlap.of(kernels)
    bubble = length(union((row.start_ns, row.end_ns) for row in kernels if row.type.startswith("hcom_receive")))
    communication, uncovered = length(overlap.communication), length(overlap.uncovered)
    first = min(row.start_ns for row in kernels)
    last = max(row.end_ns for row in kernels)
    after = max(0, following_ns - last)
    begin = next((item.start_ns for item in profile.steps if item.step == step), 0)
    times = (
        length(overlap.computing), uncovered, communication - uncovered, communication, length(overlap.free) + after,
        last + after - first - bubble, bubble, max(0, uncovered - bubble), max(0, first - begin),
    )  # fmt: skip
    return [device, step, *(us(time) for time in times)]
