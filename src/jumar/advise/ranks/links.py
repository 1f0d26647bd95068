"""`Link`: what the vendor's profiler measured of one connection between two ranks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from jumar.timeline.model.events import Timeline

FACT = "communication_matrix"
"""The fact of a timeline that holds the links as JSON: [from-to, transport, MB, ms]."""


@dataclass(frozen=True, slots=True)
class Link:
    """All transfers from one rank to another over one transport."""

    pair: str
    """`0-1`."""
    transport: str
    """`HCCS`, `RDMA`, `PCIE`, `LOCAL`."""
    size_mb: float
    time_ms: float

    @property
    def bandwidth(self) -> float:
        """MB a millisecond, which is GB a second; 0 where no time was measured."""
        return self.size_mb / self.time_ms if self.time_ms > 0 else 0.0


def links_of(timeline: Timeline) -> list[Link]:
    """Return the links that a timeline knows."""
    try:
        rows = json.loads(timeline.facts.get(FACT, "[]"))
    except ValueError:
        return []
    return [Link(str(pair), str(transport), float(size), float(time)) for pair, transport, size, time in rows]


def distinct(links: Iterable[Link]) -> list[Link]:
    """Return each link once: several ranks report the same one; the longest report counts."""
    found: dict[tuple[str, str], Link] = {}
    for link in links:
        key = (link.pair, link.transport)
        if key not in found or link.time_ms > found[key].time_ms:
            found[key] = link
    return list(found.values())
