"""A graph on another device: tensors that its operators make are made there."""

from __future__ import annotations

from dataclasses import replace

from jumar.findings import Json
from jumar.tune.graph.graph import Graph


def placed(graph: Graph, device: str) -> Graph:
    """Return `graph` with every device that its operators name replaced by `device`, e.g. `npu`."""
    return replace(graph, nodes=[node.changed(lambda argument: _there(argument, device)) for node in graph.nodes])


def _there(argument: Json, device: str) -> Json:
    if isinstance(argument, list):
        return [_there(item, device) for item in argument]
    return {"device": device} if isinstance(argument, dict) and "device" in argument else argument
