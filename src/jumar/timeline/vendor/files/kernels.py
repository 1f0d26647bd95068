"""`kernel_details.csv` and `op_summary_*.csv`: every kernel with its shapes, formats, blocks and units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jumar.timeline.model.events import Detail, Kind, Lane
from jumar.timeline.vendor import words
from jumar.timeline.vendor.columns import EventColumns, More
from jumar.timeline.vendor.text import tables
from jumar.timeline.vendor.text.losses import Losses

COLUMNS: tables.Columns = {
    "step": ("Step Id", "Step ID"),
    "device": ("Device_id", "Device Id", "Device ID"),
    "name": ("Name", "Op Name", "kernel_name"),
    "type": ("Type", "OP Type"),
    "core": ("Accelerator Core", "Task Type", "Accelerator", "kernel_type"),
    "start": ("Start Time", "Task Start Time", "task_start"),
    "duration": ("Duration", "Task Duration", "task_time"),
    "wait": ("Wait Time", "Task Wait Time"),
    "stream": ("Stream ID", "Stream Id"),
    "task": ("Task ID", "Task Id"),
}
"""Own names to the headings of the versions of torch_npu and CANN; `task_time_*.csv` is the last of some."""
_DETAILS = {
    "OP State": ("OP State",),
    "Block Dim": ("Block Dim", "Block Num"),
    "Mix Block Dim": ("Mix Block Dim", "Mix Block Num"),
    "HF32 Eligible": ("HF32 Eligible",),
    "Input Shapes": ("Input Shapes",),
    "Input Data Types": ("Input Data Types",),
    "Input Formats": ("Input Formats",),
    "Output Shapes": ("Output Shapes",),
    "Output Data Types": ("Output Data Types",),
    "Output Formats": ("Output Formats",),
}
"""Keys in `Detail.more` to headings."""
_MEASURED = ("ratio", "_bound", "utilization(%)", "_rate", "aicore_time(us)", "aiv_time(us)", "_fops", "_bw(GB/s)")
"""Ends of the headings of the chip's counters, which go to `Detail.more` as they stand."""
_ALL: tables.Columns = {**COLUMNS, **_DETAILS}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row."""

    name: str
    type: str
    core: str
    start_ns: int
    duration_ns: int
    device: int
    stream: str
    task: str
    step: int
    """-1 where none is given."""
    detail: Detail

    @property
    def kind(self) -> Kind:
        """What the kernel is."""
        return words.device_kind(self.name, self.core)

    @property
    def lane(self) -> Lane:
        """Where it ran, for a folder without a trace."""
        name = f"Stream {self.stream}" if self.stream else "Collectives" if self.kind == Kind.COLLECTIVE else "Stream"
        return Lane(name, "Ascend Hardware", "device", self.device)


def kernels(paths: Iterable[Path], columns: EventColumns, losses: Losses, device: int = 0) -> Iterator[Kernel]:
    """Yield the kernels of a table, or of its slices. Raises OSError."""
    for path in paths:
        for row in tables.rows(path, _ALL, ("name", "start", "duration"), losses):
            start, duration = row.ns("start"), row.ns("duration")
            if start is None or duration is None or duration < 0:
                losses.read(path.name, -1)
                losses.passed_over(path.name, "their begin or length is no number")
                continue
            yield _kernel(row, start, duration, columns, device)


def _kernel(row: tables.Row, start: int, duration: int, columns: EventColumns, device: int) -> Kernel:
    unit = words.core(row.text("core"))
    pairs = [(words.CORE, unit), (words.OP_TYPE, row.text("type"))]
    pairs += [(key, row.text(key)) for key in _DETAILS]
    pairs += [(heading, row.cells[place].strip()) for place, heading in _counters(tuple(row.headings))]
    step, number = row.integer("step"), row.integer("device")
    return Kernel(
        row.text("name"), row.text("type"), unit, start, duration, device if number is None else number,
        row.text("stream"), row.text("task"), -1 if step is None else step,
        Detail(
            shapes=words.shapes(row.text("Input Shapes")), dtypes=words.listed(row.text("Input Data Types")),
            more=known(columns, pairs),
        ),
    )  # fmt: skip


def known(columns: EventColumns, pairs: list[tuple[str, str]]) -> More:
    """Return the fields that have a value."""
    return columns.more([(key, text.strip('"')) for key, text in pairs if text and text != "N/A"])


_COUNTERS: dict[tuple[str, ...], list[tuple[int, str]]] = {}


def _counters(headings: tuple[str, ...]) -> list[tuple[int, str]]:
    if headings not in _COUNTERS:
        _COUNTERS.clear()
        _COUNTERS[headings] = [(i, text) for i, text in enumerate(headings) if text.endswith(_MEASURED)]
    return _COUNTERS[headings]
