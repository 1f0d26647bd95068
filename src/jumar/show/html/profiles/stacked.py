"""Stacked bars: each part's share of the longest bar."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.text.digits import number_text
from jumar.show.blocks.profiles import StackedBars


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One part of a bar: the number of its colour, its width in percent and its tooltip."""

    style: int
    percent: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedView:
    """What the template lays out."""

    title: str
    unit: str
    legend: list[tuple[int, str]]
    bars: list[tuple[str, list[Piece], str]]
    note: str


def stacked_view(chart: StackedBars) -> StackedView:
    """Prepare `chart`."""
    longest = max((sum(numbers) for _, numbers in chart.bars), default=0.0) or 1.0
    bars = []
    for name, numbers in chart.bars:
        pieces = [
            Piece(
                style=index,
                percent=f"{100 * number / longest:.3f}",
                title=f"{part}: {number_text(number)} {chart.unit}",
            )
            for index, (part, number) in enumerate(zip(chart.parts, numbers, strict=True))
            if number > 0
        ]
        bars.append((name, pieces, number_text(sum(numbers))))
    return StackedView(
        title=chart.title, unit=chart.unit, legend=list(enumerate(chart.parts)), bars=bars, note=chart.note
    )
