"""Flame graphs: the nodes as lists for the page's script, and the greatest ones as a table for readers without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jumar.show.blocks.profiles import Flame


@dataclass(frozen=True, slots=True, kw_only=True)
class FlameView:
    """What the template lays out."""

    title: str
    note: str
    data: dict[str, Sequence[Any]]
    has_device: bool


def flame_view(flame: Flame) -> FlameView:
    """Prepare `flame`: one list a column."""
    nodes = flame.nodes
    return FlameView(
        title=flame.title,
        note=flame.note,
        data={
            "parent": [node.parent for node in nodes],
            "name": [node.name for node in nodes],
            "host": [round(node.host_ms, 6) for node in nodes],
            "device": [round(node.device_ms, 6) for node in nodes],
            "calls": [round(node.calls, 3) for node in nodes],
        },
        has_device=any(node.device_ms > 0 for node in nodes),
    )
