"""Blocks of a profile's page: a timeline that zooms, a flame graph, stacked bars, a roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The events of one rank on its lanes, drawn on a canvas that zooms.

    `payload` is base64 of zlib data; `show.pages.profile.trace` says what is in it.
    """

    title: str
    header: Mapping[str, Any]
    payload: str
    note: str = ""
    """What is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlameNode:
    """One call path; its calls are merged. Times are of the node and all below it, in milliseconds a step."""

    parent: int
    """Index of the node that holds it, -1 for none; always below the node's own index."""
    name: str
    host_ms: float
    device_ms: float
    calls: float
    """A step."""

    def __post_init__(self) -> None:
        if self.parent < -1:
            raise ValueError(f"parent of flame node {self.name!r} must be an index or -1; got {self.parent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flame:
    """A flame graph: what called what, wide where much time went. Raises ValueError for a parent after its child."""

    title: str
    nodes: Sequence[FlameNode]
    note: str = ""

    def __post_init__(self) -> None:
        for index, node in enumerate(self.nodes):
            if node.parent >= index:
                raise ValueError(f"flame node {index} must come after its parent; got parent {node.parent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedBars:
    """Bars in pieces, on one scale. Raises ValueError when a bar has not one number a part."""

    title: str
    unit: str
    parts: Sequence[str]
    bars: Sequence[tuple[str, Sequence[float]]]
    note: str = ""

    def __post_init__(self) -> None:
        for name, numbers in self.bars:
            if len(numbers) != len(self.parts):
                raise ValueError(f"bar {name!r} must have {len(self.parts)} numbers, one a part; it has {len(numbers)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One operator in a roofline."""

    name: str
    intensity: float
    """FLOPs a byte."""
    achieved: float
    """FLOP/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """What a chip allows at each arithmetic intensity, and what operators reach (Williams et al., CACM 2009).

    `roofs` are peaks in FLOP/s by name, `bandwidth` is bytes/s of the memory. Dots have numbers above 0.
    """

    title: str
    roofs: Sequence[tuple[str, float]]
    bandwidth: float
    dots: Sequence[Dot]
    note: str = ""

    def __post_init__(self) -> None:
        if not self.roofs or self.bandwidth <= 0:
            raise ValueError(f"roofline {self.title!r} must have a peak and a bandwidth above 0")
        for dot in self.dots:
            if not (dot.intensity > 0 and dot.achieved > 0):
                raise ValueError(f"dot {dot.name!r} must have numbers above 0; got {dot.intensity}, {dot.achieved}")


PROFILE_KINDS: dict[type[Any], str] = {
    Trace: "trace", Flame: "flame", StackedBars: "stacked-bars", Roofline: "roofline",
}  # fmt: skip
"""A block's class to its `kind` in JSON."""
