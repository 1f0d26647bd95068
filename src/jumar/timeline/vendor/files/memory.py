"""Tables of memory: `memory_record.csv`, `npu_mem_*.csv`, `npu_module_mem.csv` -> counters; `operator_memory.csv`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jumar.timeline.model.allocations import Allocations, Owner
from jumar.timeline.model.builder import TimelineBuilder
from jumar.timeline.vendor.text import tables
from jumar.timeline.vendor.text.losses import Losses

_RECORD: tables.Columns = {
    "component": ("Component", "event"),
    "time": ("Timestamp", "Timestamp(us)"),
    "allocated": ("Total Allocated",),
    "reserved": ("Total Reserved",),
    "active": ("Total Active",),
    "ddr": ("ddr",),
    "hbm": ("hbm",),
    "device": ("Device Type", "Device", "Device_id"),
}
_SERIES = {"allocated": "memory", "reserved": "reserved", "active": "active", "ddr": "ddr", "hbm": "hbm"}
_FRAMEWORK = "PTA"
"""Component of torch_npu's own allocator: what `torch.npu.memory_allocated` counts."""
_OPERATOR: tables.Columns = {
    "name": ("Name",),
    "size": ("Size",),
    "start": ("Allocation Time",),
    "end": ("Active Release Time", "Release Time"),
    "reserved": ("Allocation Total Reserved",),
    "reserved_after": ("Release Total Reserved",),
    "device": ("Device Type", "Device", "Device_id"),
}


def read_records(paths: Iterable[Path], builder: TimelineBuilder, losses: Losses, device: int = 0) -> int:
    """Count memory over time in `builder`, in bytes; return the number of rows. Raises OSError.

    `memory npu:0` and `reserved npu:0` are torch_npu's allocator; other components have their name behind it.
    """
    num_rows = 0
    for path in paths:
        for row in tables.rows(path, _RECORD, ("time",), losses):
            time = row.ns("time")
            if time is None:
                losses.passed_over(path.name, "their time is no number")
                continue
            place = _device(row.text("device"), device)
            component = row.text("component")
            tail = "" if component in ("", _FRAMEWORK) else f" {component}"
            for column, name in _SERIES.items():
                size = row.size(column, "kb" if column in ("ddr", "hbm") else "mb")
                if size is not None:
                    builder.count(f"{name} {place}{tail}", "bytes", time, size)
            num_rows += 1
    return num_rows


def _device(text: str, device: int) -> str:
    """Return `npu:0` for `NPU:0` and for `0`."""
    plain = text.lower() or str(device)
    return plain if ":" in plain else f"npu:{plain}"


@dataclass(slots=True)
class _Life:
    name: str
    size: int
    start: int | None
    end: int | None
    reserved: int


def operator_allocations(path: Path, losses: Losses) -> list[Allocations]:
    """Return the memory of each device by operators, times absolute. Raises OSError.

    Memory that was taken before the recording or given back after it has only one of its ends: it counts from the
    recording's begin, or to its end.
    """
    lives: dict[str, list[_Life]] = {}
    for row in tables.rows(path, _OPERATOR, ("name", "size"), losses):
        size = row.size("size", "kb")
        start, end = row.ns("start"), row.ns("end")
        if size is None or (start is None and end is None):
            losses.passed_over(path.name, "their size or their times are no numbers")
            continue
        reserved = max(row.size("reserved") or 0, row.size("reserved_after") or 0)
        life = _Life(row.text("name"), abs(size), start, end, reserved)
        lives.setdefault(_device(row.text("device"), 0), []).append(life)
    return [_summed(device, found) for device, found in lives.items()]


def _summed(device: str, lives: list[_Life]) -> Allocations:
    first = min(time for life in lives for time in (life.start, life.end) if time is not None)
    changes = [(first if life.start is None else life.start, 1, life) for life in lives]
    changes += [(life.end, 0, life) for life in lives if life.end is not None]
    changes.sort(key=lambda change: change[:2])  # what is freed at a moment makes room for what is taken then
    used = peak = 0
    peak_ns, peak_at = first, 0
    freed: Counter[tuple[str, int]] = Counter()
    num_again = 0
    for place, (time, is_taken, life) in enumerate(changes):
        used += life.size if is_taken else -life.size
        if used > peak:
            peak, peak_ns, peak_at = used, time, place
        if is_taken:
            num_again += freed[life.name, life.size] > 0
            freed[life.name, life.size] -= freed[life.name, life.size] > 0
        else:
            freed[life.name, life.size] += 1
    return Allocations(
        device=device, peak_bytes=peak, peak_ns=peak_ns, owners=_owners(changes[: peak_at + 1]), allocated_bytes=used,
        reserved_bytes=changes[-1][2].reserved, peak_reserved_bytes=max(life.reserved for life in lives),
        num_allocations=sum(life.start is not None for life in lives), num_reallocations=num_again,
    )  # fmt: skip


def _owners(changes: list[tuple[int, int, _Life]]) -> list[Owner]:
    alive: dict[int, _Life] = {}
    for _, is_taken, life in changes:
        if is_taken:
            alive[id(life)] = life
        else:
            alive.pop(id(life), None)
    return owners((life.name, life.size) for life in alive.values())


def owners(blocks: Iterable[tuple[str, int]]) -> list[Owner]:
    """Return who holds blocks of (name, size in bytes), the largest first."""
    sizes: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for name, size in blocks:
        sizes[name] += size
        numbers[name] += 1
    return [
        Owner(name, size, numbers[name]) for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))
    ]
