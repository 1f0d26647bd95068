"""The table that `print(prof)` shows: host and device times, and the device's memory, of each operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.npu.profiler.collect.collected import Profile
from jumar.npu.profiler.files.operators import Node, trees


@dataclass(slots=True)
class Line:
    """The calls of one name, times in microseconds."""

    name: str
    shapes: str = ""
    self_cpu_us: float = 0.0
    cpu_us: float = 0.0
    self_npu_us: float = 0.0
    npu_us: float = 0.0
    self_npu_bytes: int = 0
    """Allocated by its own calls on the device, less what was freed in them."""
    npu_bytes: int = 0
    num_calls: int = 0


def lines(profile: Profile, *, by_shape: bool = False, leaves_only: bool = False) -> list[Line]:
    """Return the calls by name (and shapes), the longest on the device first. Host times are estimates too."""
    found: dict[tuple[str, str], Line] = {}
    for node in trees(profile):
        if leaves_only and node.row.operator < 0:
            continue
        shapes = node.row.shapes if by_shape else ""
        _add(found.setdefault((node.row.name, shapes), Line(node.row.name, shapes)), node)
    return sorted(found.values(), key=lambda line: (-line.self_npu_us, -line.self_cpu_us))


def _add(line: Line, node: Node) -> None:
    line.self_cpu_us += node.host_self_ns / 1e3
    line.cpu_us += node.host_total_ns / 1e3
    line.self_npu_us += node.device_ns / 1e3
    line.npu_us += node.device_total_ns / 1e3
    line.self_npu_bytes += node.device_bytes
    line.npu_bytes += node.device_total_bytes
    line.num_calls += 1


_COLUMNS = (
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self NPU %", "Self NPU", "NPU total",
    "NPU time avg",
)  # fmt: skip
_MEMORY = ("CPU Mem", "Self CPU Mem", "NPU Mem", "Self NPU Mem")


def table(profile: Profile, *, by_shape: bool = False, leaves_only: bool = False, row_limit: int = 100) -> str:
    """Return the table as text; its last lines say that the times are estimates.

    The columns of memory stand in it where the profile has memory. The host's memory is not collected.
    """
    found = lines(profile, by_shape=by_shape, leaves_only=leaves_only)
    cpu, npu = sum(line.self_cpu_us for line in found), sum(line.self_npu_us for line in found)
    headers = [
        *_COLUMNS,
        *(_MEMORY if profile.has_memory else ()),
        "# of Calls",
        *(["Input Shapes"] if by_shape else []),
    ]
    rows = []
    for line in found[:row_limit]:
        calls = line.num_calls
        cells = [
            line.name, _percent(line.self_cpu_us, cpu), _time(line.self_cpu_us), _percent(line.cpu_us, cpu),
            _time(line.cpu_us), _time(line.cpu_us / calls), _percent(line.self_npu_us, npu), _time(line.self_npu_us),
            _time(line.npu_us), _time(line.npu_us / calls),
        ]  # fmt: skip
        memory = ["-", "-", _bytes(line.npu_bytes), _bytes(line.self_npu_bytes)] if profile.has_memory else []
        rows.append([*cells, *memory, str(calls), *([line.shapes] if by_shape else [])])
    totals = f"Self CPU time total: {_time(cpu)}\nSelf NPU time total: {_time(npu)}"
    note = f"All times are estimates for {profile.soc}; nothing was measured on an NPU."
    return f"{_text(headers, rows)}\n{totals}\n{note}\n"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


def _time(time_us: float) -> str:
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    return f"{time_us / 1e3:.3f}ms" if time_us >= 1e3 else f"{time_us:.3f}us"


def _bytes(size: int) -> str:
    """Return a size as PyTorch's table writes it: `512 b`, `2.00 Kb`, `-1.50 Mb`."""
    for unit, scale in (("Gb", 2**30), ("Mb", 2**20), ("Kb", 2**10)):
        if abs(size) >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} b"


def _text(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
    rule = "  ".join("-" * width for width in widths)
    body = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (headers, *rows)]
    return "\n".join([rule, body[0], rule, *body[1:], rule])
