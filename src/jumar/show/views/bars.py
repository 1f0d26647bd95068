"""Bar charts: one line a bar, its length as a share of the widest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.base.text.digits import number_text
from jumar.show.blocks.page import BarChart

SHOWN = 30
"""Bars shown at once; the rest open on a click."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar from `start_percent`, `width_percent` wide; both empty where the value is NaN or Inf."""

    label: str
    value: str
    start_percent: str = ""
    width_percent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChartView:
    """What the template lays out; `rest` opens on a click."""

    title: str
    unit: str
    shown: list[Bar]
    rest: list[Bar]


def bar_chart_view(chart: BarChart) -> BarChartView:
    """Prepare `chart`; negative values go left from a common zero line."""
    bars = _bars(chart.bars)
    return BarChartView(title=chart.title, unit=chart.unit, shown=bars[:SHOWN], rest=bars[SHOWN:])


def _bars(values: Sequence[tuple[str, float]]) -> list[Bar]:
    finite = [value for _, value in values if math.isfinite(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    half = high / 2 - low / 2 or 1.0  # halves, because high - low may overflow
    bars = []
    for label, value in values:
        if not math.isfinite(value):
            bars.append(Bar(label=label, value=number_text(value)))
            continue
        start = (min(value, 0.0) / 2 - low / 2) / half * 100
        width = abs(value) / 2 / half * 100
        bars.append(
            Bar(label=label, value=number_text(value), start_percent=f"{start:.2f}", width_percent=f"{width:.2f}")
        )
    return bars
