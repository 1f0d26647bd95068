"""Rows of tables meet the events of a trace: the kernel that begins at that nanosecond on that device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from jumar.timeline.model.events import Kind
from jumar.timeline.vendor.columns import EventColumns
from jumar.timeline.vendor.files.collectives import Collective, Pairs
from jumar.timeline.vendor.files.kernels import Kernel

_ON_DEVICE = frozenset({int(Kind.KERNEL), int(Kind.COPY), int(Kind.COLLECTIVE), int(Kind.OTHER)})


@dataclass(slots=True)
class DeviceRows:
    """The events of the device's side by their begin."""

    columns: EventColumns
    _by_start: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _devices: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Index the events that are there now."""
        columns = self.columns
        self._devices = [lane.device if lane.side == "device" else -1 for lane in columns.lanes]
        for row, start in enumerate(columns.start_ns):
            device = self._devices[columns.lane[row]]
            if device >= 0 and columns.kind[row] in _ON_DEVICE:
                self._by_start.setdefault((device, start), []).append(row)

    def __len__(self) -> int:
        """Return the number of different begins."""
        return len(self._by_start)

    def take(self, kernel: Kernel) -> int | None:
        """Return the event of a kernel and take it out; None where none begins then. Equal names go first."""
        found = self._by_start.get((kernel.device, kernel.start_ns))
        if not found:
            return None
        names = self.columns.names
        row = next((row for row in found if names[self.columns.name[row]] == kernel.name), found[0])
        found.remove(row)
        return row

    def describe(self, row: int, kernel: Kernel) -> None:
        """Give an event what the table knows of it, beside what the trace knew."""
        before = self.columns.detail_of(row)
        keys = {key for key, _ in kernel.detail.more}
        kept = tuple(pair for pair in before.more if pair[0] not in keys)
        self.columns.set_detail(row, replace(kernel.detail, more=(*kernel.detail.more, *kept), stack=before.stack))
        if self.columns.kind[row] == Kind.OTHER and kernel.kind != Kind.OTHER and self._is_stream(row):
            self.columns.kind[row] = int(kernel.kind)

    def _is_stream(self, row: int) -> bool:
        return not self.columns.lanes[self.columns.lane[row]].name.lower().startswith("plane")


def describe_collectives(columns: EventColumns, found: Iterable[Collective]) -> list[Collective]:
    """Give collectives their waiting, size and bandwidth; return those that no event is: name and nearest begin."""
    rows: dict[str, list[int]] = {}
    names = columns.names
    for row, kind in enumerate(columns.kind):
        if kind == Kind.COLLECTIVE:
            rows.setdefault(names[columns.name[row]], []).append(row)
    left = []
    for collective in found:
        candidates = rows.get(collective.name, [])
        if not candidates:
            left.append(collective)
            continue
        row = min(candidates, key=lambda row: abs(columns.start_ns[row] - collective.start_ns))
        candidates.remove(row)
        _append(columns, row, collective.pairs)
    return left


def _append(columns: EventColumns, row: int, pairs: Pairs) -> None:
    before = columns.detail_of(row)
    keys = {key for key, _ in pairs}
    kept = [pair for pair in before.more if pair[0] not in keys]
    columns.set_detail(row, replace(before, more=columns.more([*kept, *pairs])))


def add_kernels(columns: EventColumns, kernels: Sequence[Kernel]) -> None:
    """Take kernels as events of their own."""
    for kernel in kernels:
        columns.add(kernel.start_ns, kernel.duration_ns, kernel.kind, kernel.name, kernel.lane, detail=kernel.detail)
