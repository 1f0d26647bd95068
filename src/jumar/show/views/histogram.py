"""Histograms: counts as filled steps, in thousandths of the plot's width and height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.show.blocks.pictures import Counts, Histogram
from jumar.show.views.axis import Axis, linear_axis
from jumar.show.views.lines import NUM_STYLES, Tick, axis_ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """One series: the path of its outline, closed at the bottom."""

    name: str
    style: int
    path: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramView:
    """What the template lays out."""

    title: str
    x_label: str
    note: str
    series: list[Steps]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    gutter_ch: int
    description: str


def histogram_view(histogram: Histogram) -> HistogramView | None:
    """Prepare `histogram`; None when nothing was counted."""
    greatest = max((count for one in histogram.series for count in one.counts), default=0)
    if not greatest:
        return None
    x_axis = linear_axis([histogram.edges[0], histogram.edges[-1]], tight=True, num_ticks=6)
    y_axis = linear_axis([0.0, float(greatest)], whole=True, num_ticks=4)
    y_ticks = axis_ticks(y_axis, downward=True)
    return HistogramView(
        title=histogram.title,
        x_label=histogram.x_label,
        note=histogram.note,
        series=[_steps(index, one, histogram.edges, x_axis, y_axis) for index, one in enumerate(histogram.series)],
        x_ticks=axis_ticks(x_axis),
        y_ticks=y_ticks,
        gutter_ch=max(len(tick.label) for tick in y_ticks),
        description=f"{histogram.title}. " + ". ".join(f"{one.name}: {_words(one)}" for one in histogram.series),
    )


def _steps(index: int, one: Counts, edges: Sequence[float], x_axis: Axis, y_axis: Axis) -> Steps:
    parts = [f"M{x_axis.position(edges[0]) * 1000:.1f} 1000"]
    for count, right in zip(one.counts, edges[1:], strict=True):
        parts.append(f"V{(1 - y_axis.position(float(count))) * 1000:.1f}H{x_axis.position(right) * 1000:.1f}")
    return Steps(name=one.name, style=index % NUM_STYLES, path="".join(parts) + "V1000Z", note=_words(one))


def _words(one: Counts) -> str:
    return f"{sum(one.counts):,} values"
