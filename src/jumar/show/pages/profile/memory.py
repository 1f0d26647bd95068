"""A timeline -> pictures of its memory, its loader's queue and the host, and who held the memory at its peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jumar.base.text.digits import Cell
from jumar.base.text.sizes import MIB, size_text
from jumar.show.blocks.page import Block, Column, LineChart, Series, Table
from jumar.timeline.model.allocations import Allocations
from jumar.timeline.model.events import Counter, Timeline

MAX_POINTS = 600
"""Points of one line; of more, each stretch gives its greatest value: a peak is never lost."""
MAX_OWNERS = 30
SCALES = {"bytes": (float(MIB), "MiB"), "count": (1.0, "count"), "%": (1.0, "%")}


def memory_blocks(timeline: Timeline) -> list[Block]:
    """Return the memory over time and its peak's owners; nothing where the profile has no memory."""
    counters = [counter for counter in timeline.counters if counter.unit == "bytes" and len(counter.times_ns)]
    chart = _chart("Memory", counters)
    return [*([chart] if chart else []), *(_owners(one) for one in timeline.allocations if one.owners)]


def counter_blocks(timeline: Timeline) -> list[Block]:
    """Return one chart for each unit of the other counters: the loader's queue, the load of host and process."""
    others = [counter for counter in timeline.counters if counter.unit != "bytes" and len(counter.times_ns)]
    titles = {"count": "Counters", "%": "Load"}
    units = list(dict.fromkeys(counter.unit for counter in others))
    charts = [_chart(titles.get(unit, unit), [one for one in others if one.unit == unit]) for unit in units]
    return [chart for chart in charts if chart is not None]


def _chart(title: str, counters: Sequence[Counter]) -> LineChart | None:
    if not counters:
        return None
    scale, unit = SCALES.get(counters[0].unit, (1.0, counters[0].unit))
    lines = [_line(counter, scale) for counter in counters]
    return LineChart(title=title, x_label="ms", y_label=unit, series=lines)


def _line(counter: Counter, scale: float) -> Series:
    times, values = counter.times_ns, counter.values
    if len(times) > MAX_POINTS:
        begins = np.linspace(0, len(times), MAX_POINTS, endpoint=False).astype(np.int64)
        ends = np.append(begins[1:], len(times))
        chosen = [low + int(np.argmax(values[low:high])) for low, high in zip(begins, ends, strict=True)]
        times, values = times[chosen], values[chosen]
    return Series(
        name=counter.name,
        x=[round(float(time) / 1e6, 3) for time in times],
        y=[round(float(value) / scale, 3) for value in values],
    )


def _owners(memory: Allocations) -> Table:
    """Return who held the peak, the largest first."""
    columns = [
        Column(title="place", code=True), Column(title="held at the peak", unit="MiB", number=True, bar=True),
        Column(title="blocks", number=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [one.name, round(one.size_bytes / MIB, 3), one.num_blocks] for one in memory.owners[:MAX_OWNERS]
    ]
    hidden = len(memory.owners) - len(rows)
    more = f"; {hidden} smaller ones are left out" if hidden > 0 else ""
    return Table(
        columns=columns, rows=rows, title=f"Memory of {memory.device} at its peak, {size_text(memory.peak_bytes)}{more}"
    )
