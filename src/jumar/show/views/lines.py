"""Line charts: the paths, ticks, legend and gaps of an SVG, in thousandths of the plot's width and height.

The plot is stretched to the width of the window while lines and dots keep their thickness, so that
one drawing is right on a phone and on a wide screen; the labels are text outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jumar.base.text.digits import Cell, number_text
from jumar.base.text.language import translate
from jumar.show.blocks.documents import plain
from jumar.show.blocks.page import Column, LineChart, Series, Table
from jumar.show.views.axis import Axis, linear_axis, log_axis
from jumar.show.views.tables import TableView, table_view

NUM_STYLES = 6
"""Colours and dash patterns in the style sheet; further series start over."""
_MOST_DOTS = 30
"""A line with no more points than this has a dot at each."""
_DIGITS = 7
"""Digits in the table of numbers: they show the difference of lines that look the same; a float32 has about seven."""
_MOST_POINTS = 2000
"""Points drawn of one stretch; of more, each group gives its least and its greatest."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A grid line at `percent` of the axis, from the left or from the top."""

    percent: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch where a series has no number to draw although it has a value: NaN, Inf, or 0 on a log axis."""

    percent: str
    label: str
    title: str
    style: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series: SVG path data of its stretches and its dots, and its line in the legend."""

    name: str
    style: int
    path: str
    dots: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChartView:
    """What the template lays out; `table` holds the same numbers for reading and for the hover."""

    id: str
    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    gaps: list[Gap]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    gutter_ch: int
    description: str
    data: dict[str, Any]
    table: TableView | None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return self.table is None


def line_chart_view(chart: LineChart, chart_id: str) -> LineChartView:
    """Prepare `chart` under the element id `chart_id`."""
    series = [_sorted_series(one) for one in chart.series]
    log = chart.log_y and any(_is_drawn(y, log=True) for one in series for y in one.y)
    x_values = [x for one in series for x in one.x]
    y_values = [y for one in series for y in one.y if y is not None and _is_drawn(y, log=log)]
    x_axis = linear_axis(x_values or [0.0], tight=True, whole=all(float(x).is_integer() for x in x_values), num_ticks=8)
    y_axis = log_axis(y_values) if log else linear_axis(y_values or [0.0])
    y_ticks = axis_ticks(y_axis, downward=True)
    return LineChartView(
        id=chart_id,
        title=chart.title,
        x_label=chart.x_label,
        y_label=chart.y_label + (" (log scale)" if log else ""),
        lines=[_line(index, series, x_axis, y_axis) for index in range(len(series))],
        gaps=[gap for index, one in enumerate(series) for gap in _gaps(index, one, x_axis, log=log)],
        x_ticks=axis_ticks(x_axis),
        y_ticks=y_ticks,
        gutter_ch=max((len(tick.label) for tick in y_ticks), default=1),
        description=f"{chart.title}. " + ". ".join(f"{one.name}: {_summary(one)}" for one in series),
        data={"x": [x_axis.low, x_axis.high], "names": [one.name for one in series]},
        table=table_view(_data_table(chart, series), f"{chart_id}-numbers") if x_values else None,
    )


def summary(series: Series) -> str:
    """Return a series in a few words: `2.303 → 1.871 over 3 points`."""
    return _summary(_sorted_series(series))


def _summary(series: Series) -> str:
    values = [y for y in series.y if y is not None]
    if not values:
        return translate("no values")
    if len(values) == 1:
        return translate(f"{number_text(values[0])} at one point")
    return translate(f"{number_text(values[0])} → {number_text(values[-1])} over {len(values):,} points")


def _sorted_series(series: Series) -> Series:
    pairs = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x)]
    pairs.sort(key=lambda pair: pair[0])
    return Series(name=series.name, x=tuple(x for x, _ in pairs), y=tuple(y for _, y in pairs))


def _is_drawn(y: float | None, *, log: bool) -> bool:
    return y is not None and math.isfinite(y) and (y > 0 or not log)


def axis_ticks(axis: Axis, *, downward: bool = False) -> list[Tick]:
    """Return the ticks of an axis; `downward`: places count from the top."""
    places = (axis.position(tick) for tick in axis.ticks)
    return [
        Tick(percent=f"{(1 - place if downward else place) * 100:.2f}", label=label)
        for place, label in zip(places, axis.labels, strict=True)
    ]


def _line(index: int, series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> Line:
    one = series[index]
    stretches = [
        [(x_axis.position(x) * 1000, (1 - y_axis.position(y)) * 1000) for x, y in part if y is not None]
        for drawn, part in groupby(zip(one.x, one.y, strict=True), key=lambda pair: _is_drawn(pair[1], log=y_axis.log))
        if drawn
    ]
    dotted = [point for part in stretches if len(part) == 1 or len(one.x) <= _MOST_DOTS for point in part]
    same = next((other.name for other in series[:index] if one.x and _agree(one, other)), None)
    return Line(
        name=one.name,
        style=index % NUM_STYLES,
        path="".join(_path(_thinned(part)) for part in stretches if len(part) > 1),
        # A line of no length with round ends is a dot that stays round when the plot is stretched.
        dots="".join(f"M{x:.1f} {y:.1f}h0" for x, y in dotted),
        note=_summary(one) + (translate(f"; the same values as {same}") if same is not None else ""),
    )


def _agree(one: Series, other: Series) -> bool:
    """Tell whether two series hold the same numbers, NaN being the same as NaN."""
    return (one.x, plain(one.y)) == (other.x, plain(other.y))


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _thinned(points: list[Point]) -> list[Point]:
    if len(points) <= _MOST_POINTS:
        return points
    size = math.ceil(len(points) / (_MOST_POINTS // 2))
    kept: list[Point] = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        kept += sorted({min(group, key=lambda point: point[1]), max(group, key=lambda point: point[1])})
    return kept


def _gaps(index: int, series: Series, x_axis: Axis, *, log: bool) -> list[Gap]:
    points = [
        (x, "" if y is None or _is_drawn(y, log=log) else _gap_label(y))
        for x, y in zip(series.x, series.y, strict=True)
    ]
    gaps = []
    for label, part in groupby(points, key=lambda point: point[1]):
        xs = [x for x, _ in part]
        if label:
            span = number_text(xs[0]) if len(xs) == 1 else f"{number_text(xs[0])} to {number_text(xs[-1])}"
            percent = f"{x_axis.position(xs[0]) * 100:.2f}"
            title = f"{series.name}: {label} at {span}"
            gaps.append(Gap(percent=percent, label=label, title=title, style=index % NUM_STYLES))
    return gaps


def _gap_label(y: float) -> str:
    return "≤ 0" if math.isfinite(y) else number_text(y)


def _data_table(chart: LineChart, series: Sequence[Series]) -> Table:
    """Join the series on x; an x that a series has twice gives two rows."""
    titles = [chart.x_label, *(one.name for one in series)]
    rows: dict[tuple[float, int], list[Cell]] = {}
    for index, one in enumerate(series):
        for x, group in groupby(zip(one.x, one.y, strict=True), key=lambda pair: pair[0]):
            for count, (_, y) in enumerate(group):
                rows.setdefault((x, count), [x] + [None] * len(series))[index + 1] = y
    return Table(
        columns=[Column(title=title, number=True, digits=_DIGITS) for title in titles],
        rows=[rows[key] for key in sorted(rows)],
    )
