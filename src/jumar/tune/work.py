"""What is tuned: one operator call or a graph of them. Both have a key, an identity and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.tune.graph import Graph
from jumar.tune.task import Task

Work = Task | Graph


def work_from_json(data: Mapping[str, Any]) -> Work:
    """Rebuild a task or a graph from its `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
    return Graph.from_json(data) if "nodes" in data else Task.from_json(data)
