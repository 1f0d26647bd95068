"""Rooflines: roofs and dots on two logarithmic axes, in thousandths of the plot's width and height."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.text.digits import Cell, number_text
from jumar.show.blocks.page import Column, Table
from jumar.show.blocks.profiles import Dot, Roofline
from jumar.show.views.axis import Axis, log_axis
from jumar.show.views.lines import Tick, axis_ticks
from jumar.show.views.tables import TableView, table_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """One roof: its colour's number, its words and its path."""

    style: int
    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofDot:
    """One operator: its place in percent from the left and the top, and its tooltip."""

    left: str
    top: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofView:
    """What the template lays out."""

    title: str
    note: str
    roofs: list[Roof]
    dots: list[RoofDot]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    gutter_ch: int
    table: TableView


def roof_view(chart: Roofline, chart_id: str) -> RoofView:
    """Prepare `chart`: x is FLOPs a byte, y is GFLOP/s."""
    ridges = [peak / chart.bandwidth for _, peak in chart.roofs]
    x_axis = log_axis([min(ridges) / 100, max(ridges) * 10, *(dot.intensity for dot in chart.dots)])
    least = min([x_axis.low * chart.bandwidth, *(dot.achieved for dot in chart.dots)])
    y_axis = log_axis([least / 1e9, *(peak / 1e9 for _, peak in chart.roofs), *(d.achieved / 1e9 for d in chart.dots)])
    y_ticks = axis_ticks(y_axis, downward=True)
    return RoofView(
        title=chart.title,
        note=chart.note,
        roofs=[_roof(index, chart, x_axis, y_axis) for index in range(len(chart.roofs))],
        dots=[
            RoofDot(
                left=f"{100 * x_axis.position(dot.intensity):.2f}",
                top=f"{100 * (1 - y_axis.position(dot.achieved / 1e9)):.2f}",
                title=_words(dot),
            )
            for dot in chart.dots
        ],
        x_ticks=axis_ticks(x_axis),
        y_ticks=y_ticks,
        gutter_ch=max(len(tick.label) for tick in y_ticks),
        table=table_view(_table(chart), f"{chart_id}-numbers"),
    )


def _words(dot: Dot) -> str:
    intensity, reached = number_text(dot.intensity, 3), number_text(dot.achieved / 1e9, 3)
    return f"{dot.name}: {intensity} FLOP/byte, {reached} GFLOP/s"


def _roof(index: int, chart: Roofline, x_axis: Axis, y_axis: Axis) -> Roof:
    """Return the line along the bandwidth up to the ridge, then along the peak."""
    name, peak = chart.roofs[index]
    ridge = peak / chart.bandwidth
    first = max(x_axis.low, y_axis.low * 1e9 / chart.bandwidth)
    corners = [(first, first * chart.bandwidth), (ridge, peak), (x_axis.high, peak)]
    path = "L".join(f"{1000 * x_axis.position(x):.1f} {1000 * (1 - y_axis.position(y / 1e9)):.1f}" for x, y in corners)
    words = f"{name}, {number_text(peak / 1e12, 3)} TFLOP/s from {number_text(ridge, 3)} FLOP/byte on"
    return Roof(style=index, name=words, path=f"M{path}")


def _table(chart: Roofline) -> Table:
    columns = [
        Column(title="operator and sizes", code=True), Column(title="intensity", unit="FLOP/byte", number=True),
        Column(title="reached", unit="GFLOP/s", number=True),
        Column(title="of the roof", unit="%", number=True, bar=True),
    ]  # fmt: skip
    highest = max(peak for _, peak in chart.roofs)
    rows: list[list[Cell]] = [
        [
            dot.name, round(dot.intensity, 3), round(dot.achieved / 1e9, 3),
            round(100 * dot.achieved / min(highest, dot.intensity * chart.bandwidth), 3),
        ]
        for dot in chart.dots
    ]  # fmt: skip
    return Table(columns=columns, rows=rows)
