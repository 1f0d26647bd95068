"""operator_memory.csv and memory_record.csv: measured, not estimated, but for their times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jumar.npu.profiler.collect.collected import MemoryRow, Profile
from jumar.npu.profiler.files.tables import us, us_text, write_csv

_OPERATOR = (
    "Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
    "Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)",
    "Allocation Total Active(MB)", "Release Total Allocated(MB)", "Release Total Reserved(MB)",
    "Release Total Active(MB)", "Stream Ptr", "Device Type",
)  # fmt: skip
_RECORD = (
    "Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)", "Stream Ptr",
    "Device Type",
)  # fmt: skip
_KIB, _MIB = 1024.0, 1024.0**2


def write_operator_memory(path: Path, profile: Profile) -> None:
    """Write one row a result's memory; what still lives has no release."""
    write_csv(path, _OPERATOR, [_operator(profile, row) for row in profile.memory])


def _operator(profile: Profile, row: MemoryRow) -> list[Any]:
    start = us_text(profile.epoch_ns, row.start_ns, "\t")
    begin = [row.start_allocated / _MIB, row.start_reserved / _MIB, row.start_allocated / _MIB]
    if row.end_ns < 0:
        release: list[Any] = ["", "", "", ""]
        end: list[Any] = ["", "", ""]
    else:
        time, duration = us_text(profile.epoch_ns, row.end_ns, "\t"), us(row.end_ns - row.start_ns)
        release = [time, time, duration, duration]
        end = [row.end_allocated / _MIB, row.end_reserved / _MIB, row.end_allocated / _MIB]
    return [row.name, row.size_bytes / _KIB, start, *release, *begin, *end, 0, f"NPU:{row.device}"]


def write_memory_record(path: Path, profile: Profile) -> None:
    """Write what was allocated and reserved after each allocation and release, in order."""
    changes = [(row.start_ns, row.start_allocated, row.start_reserved, row.device) for row in profile.memory]
    changes += [
        (row.end_ns, row.end_allocated, row.end_reserved, row.device) for row in profile.memory if row.end_ns >= 0
    ]
    rows = []
    for at_ns, allocated, reserved, device in sorted(changes):
        numbers = [us_text(profile.epoch_ns, at_ns, "\t"), allocated / _MIB, reserved / _MIB, allocated / _MIB, 0]
        rows += [["PTA", *numbers, f"NPU:{device}"], ["PTA+GE", *numbers, f"NPU:{device}"]]
    write_csv(path, _RECORD, rows)
