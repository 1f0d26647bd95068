"""Outlines: dotted names as nested, foldable lists, coloured like heat trees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from jumar.base.text.digits import number_text
from jumar.show.blocks.page import Heat
from jumar.show.blocks.pictures import Outline, OutlineEntry
from jumar.show.views.heat import ColourScale, LegendEntry

OPEN_NODES = 24
"""A tree with no more nodes than this is open altogether."""
ROOT_LABEL = "(model)"


@dataclass(slots=True, kw_only=True)
class OutlineNode:
    """A part of a name with what is below it."""

    label: str
    path: str
    entry: OutlineEntry | None = None
    children: dict[str, OutlineNode] = field(default_factory=dict)
    value: float | None = None
    text: str = ""
    css: str = "none"
    open: bool = False
    leads: bool = False
    """It is marked, or something below it is."""
    summed: bool = False
    """The value is that of something below."""

    @property
    def note(self) -> str:
        """The entry's own words."""
        return self.entry.note if self.entry is not None else ""

    @property
    def marked(self) -> bool:
        """Whether the reader is led here."""
        return self.entry is not None and self.entry.marked

    @property
    def title(self) -> str:
        """The tooltip: the whole name and its value."""
        return f"{self.path or ROOT_LABEL}{f': {self.text}' if self.text else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineView:
    """What the template lays out."""

    title: str
    unit: str
    nodes: list[OutlineNode]
    legend: list[LegendEntry]


def outline_view(outline: Outline) -> OutlineView:
    """Prepare `outline`: the tree, what every node shows, and which nodes are open."""
    root = OutlineNode(label="", path="")
    for entry in outline.entries:
        _descend(root, entry.name).entry = entry
    nodes = [_joined(node) for node in root.children.values()]
    for node in nodes:
        _gather(node)
    values = [(node.path, node.value) for top in nodes for node in _all(top)]
    heat = Heat(title="", unit="", values=values, log_scale=outline.log_scale)
    scale = ColourScale(heat)
    everything = len(values) <= OPEN_NODES
    for top in nodes:
        for node in _all(top):
            node.css = scale.css(node.value)
            node.text = "" if node.value is None else number_text(node.value, 3)
            node.open = everything or node.leads
    return OutlineView(title=outline.title, unit=outline.unit, nodes=nodes, legend=list(scale.legend(values)))


def _descend(root: OutlineNode, name: str) -> OutlineNode:
    node = root
    parts = name.split(".")
    for depth, part in enumerate(parts):
        path = ".".join(parts[: depth + 1])
        node = node.children.setdefault(part, OutlineNode(label=part or ROOT_LABEL, path=path))
    return node


def _joined(node: OutlineNode) -> OutlineNode:
    """Join a node that says nothing itself to its only child."""
    while node.entry is None and len(node.children) == 1:
        (child,) = node.children.values()
        child.label = f"{node.label}.{child.label}"
        node = child
    node.children = {name: _joined(child) for name, child in node.children.items()}
    return node


def _gather(node: OutlineNode) -> None:
    """Fill in values and marks from the leaves up."""
    for child in node.children.values():
        _gather(child)
    own = node.entry.value if node.entry is not None else None
    below = max((c.value for c in node.children.values() if c.value is not None), key=_size, default=None)
    node.value = own if below is None or (own is not None and _size(own) >= _size(below)) else below
    node.summed = node.value is not own
    node.leads = node.marked or any(child.leads for child in node.children.values())


def _size(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _all(node: OutlineNode) -> list[OutlineNode]:
    return [node, *(below for child in node.children.values() for below in _all(child))]
