"""Heat trees: dotted names as nested blocks, coloured by which of a few round intervals their value is in."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jumar.base.text.digits import NO_VALUE, number_text
from jumar.show.blocks.page import Heat
from jumar.show.views.axis import linear_axis

NUM_COLOURS = 7
"""Steps of the colour scale in the style sheet."""
_MOST_LEVELS = 12
"""Deeper names keep the rest of their dots in the last label."""
_ROOT_LABEL = "(model)"


@dataclass(slots=True, kw_only=True)
class HeatNode:
    """A name's part with its value, the CSS class of its colour, and what is below it."""

    label: str
    path: str
    text: str = ""
    css: str = ""
    children: dict[str, HeatNode] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The tooltip: the whole name and its value."""
        return f"{self.path or _ROOT_LABEL}: {self.text}" if self.text else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """One colour and what it stands for."""

    css: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatView:
    """What the template lays out."""

    title: str
    unit: str
    nodes: list[HeatNode]
    legend: list[LegendEntry]


def heat_view(heat: Heat) -> HeatView:
    """Prepare `heat`. A log scale needs values of at least 0; with a negative one the scale is linear."""
    scale = ColourScale(heat)
    root = HeatNode(label="", path="")
    for name, value in heat.values:
        node = _descend(root, name)
        node.text, node.css = (NO_VALUE if value is None else number_text(value)), scale.css(value)
    nodes = [_joined(node) for node in root.children.values()]
    return HeatView(title=heat.title, unit=heat.unit, nodes=nodes, legend=list(scale.legend(heat.values)))


class ColourScale:
    """Which colour a value has."""

    def __init__(self, heat: Heat) -> None:
        """Take the scale from the values of `heat`; a log scale needs values of at least 0."""
        finite = [value for _, value in heat.values if value is not None and math.isfinite(value)]
        self.log = heat.log_scale and min(finite, default=0.0) >= 0
        coloured = [value for value in finite if value > 0] if self.log else finite
        self.edges = _edges(coloured, log=self.log)

    def css(self, value: float | None) -> str:
        """Return the style sheet's class for a value."""
        if value is None:
            return "none"
        if not math.isfinite(value):
            return "bad"
        if self.log and value <= 0:
            return "zero"
        index = min(max(bisect_right(self.edges, value) - 1, 0), len(self.edges) - 2)
        return self._colour(index)

    def _colour(self, index: int) -> str:
        num_intervals = len(self.edges) - 1
        if num_intervals == 1:
            return f"h{NUM_COLOURS // 2 + 1}"
        return f"h{1 + round(index * (NUM_COLOURS - 1) / (num_intervals - 1))}"

    def legend(self, values: Sequence[tuple[str, float | None]]) -> Iterator[LegendEntry]:
        """Yield the colours that the values use, from the least on."""
        used = {self.css(value) for _, value in values}
        if "zero" in used:
            yield LegendEntry(css="zero", label="0")
        if used - {"none", "bad", "zero"}:
            for index, (low, high) in enumerate(pairwise(self.edges)):
                yield LegendEntry(css=self._colour(index), label=f"{number_text(low)} to {number_text(high)}")
        if "bad" in used:
            yield LegendEntry(css="bad", label="NaN or Inf")
        if "none" in used:
            yield LegendEntry(css="none", label="no value")


def _edges(values: Sequence[float], *, log: bool) -> list[float]:
    """Return the ends of at most `NUM_COLOURS` intervals that cover `values`."""
    if not values:
        return [0.0, 1.0]
    if log and max(values) > 10 * min(values):
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        step = math.ceil((last - first) / NUM_COLOURS)
        num_steps = math.ceil((last - first) / step)
        return [float(f"1e{min(first + index * step, 308)}") for index in range(num_steps + 1)]
    ticks = linear_axis(values, num_ticks=NUM_COLOURS - 2).ticks
    return list(ticks)


def _descend(root: HeatNode, name: str) -> HeatNode:
    node = root
    parts = name.split(".", _MOST_LEVELS - 1)
    for depth, part in enumerate(parts):
        path = ".".join(parts[: depth + 1])
        node = node.children.setdefault(part, HeatNode(label=part or _ROOT_LABEL, path=path))
    return node


def _joined(node: HeatNode) -> HeatNode:
    """Join a node without a value to its only child, so that a chain of wrappers takes one block."""
    while not node.css and len(node.children) == 1:
        (child,) = node.children.values()
        child.label = f"{node.label}.{child.label}"
        node = child
    node.children = {name: _joined(child) for name, child in node.children.items()}
    return node
