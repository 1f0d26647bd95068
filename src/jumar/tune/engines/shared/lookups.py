"""Which integers a graph uses as places in a tensor, and what they must be within.

PyTorch raises for a place that a tensor has not; engines return zeros, or another element. Places that come in by an
input are looked at in each call. Places that the graph itself computes cannot be, so that such graphs are refused
unless the operator that makes them gives places of a dimension that is not longer (`argmax`, `topk`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jumar.operators import has, has_any
from jumar.operators.schemas import schema
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.task import TensorSpec

_PLACES = ("index", "indices")
"""Arguments with these names are places, by PyTorch's own schemas."""
_INTEGERS = frozenset({"int64", "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """One use of integers as places: they must be from `low` to `high`."""

    operator: str
    index: Reference
    low: int
    high: int


def look_ups(graph: Graph) -> Iterator[LookUp]:
    """Yield each use of a tensor of integers as places in another tensor."""
    for node in graph.nodes:
        found = None if node.operator == GETITEM else schema(node.operator)
        name = next((one for one in _PLACES if found is not None and one in found.names), None)
        if found is None or name is None:
            continue
        given = dict(zip(found.names, node.arguments, strict=False)) | dict(node.keywords)
        table = graph.spec_of(next(iter(node.references())))
        if table is not None and found.arguments[0].type == "Tensor":
            yield from _of_node(graph, node, table, given, name)


def sources(graph: Graph, index: Reference) -> Iterator[Reference]:
    """Yield the inputs, and the values that are computed, that the integers of `index` are elements of."""
    node = graph.producer(index)
    given = [] if node is None or not _hands_on(node) else [one for one in node.references() if _holds(graph, one)]
    if not given:
        yield index
    for reference in given:
        yield from sources(graph, reference)


def computed_look_up(graph: Graph) -> str:
    """Name the first look-up by places that the graph computes and that may lead out of the tensor; else empty."""
    changing = _changing(graph)
    for one in look_ups(graph):
        for source in sources(graph, one.index):
            if source >= len(graph.inputs) and source in changing and not _is_within(graph, source, one):
                maker = graph.producer(source)
                by = "" if maker is None else f" that {maker.operator} computes"
                return f"{one.operator} looks up places{by}, and the engine does not tell those that are not there."
    return ""


def _of_node(graph: Graph, node: Node, table: TensorSpec, given: Mapping[str, Any], name: str) -> Iterator[LookUp]:
    """Yield the look-ups of one node: several for `x[i, j]`."""
    places = given.get(name)
    if isinstance(places, list):  # x[i, j]: one dimension each, and places may count from the end
        for dimension, place in enumerate(places):
            length = table.shape[dimension] if dimension < len(table.shape) else 0
            yield from _one(graph, node, place, -length, length - 1)
        return
    along = given.get("dim")
    if isinstance(along, int) and table.shape:
        yield from _one(graph, node, places, 0, table.shape[along] - 1)
    elif "dim" in given or "weight" not in given:  # take: of the flat tensor
        length = math.prod(table.shape)
        yield from _one(graph, node, places, -length, length - 1)
    else:
        yield from _one(graph, node, places, 0, table.shape[0] - 1)


def _one(graph: Graph, node: Node, place: Any, low: int, high: int) -> Iterator[LookUp]:
    if not isinstance(place, Mapping) or not isinstance(place.get("value"), int):
        return
    spec = graph.spec_of(place["value"])
    if spec is None or spec.dtype in _INTEGERS:
        yield LookUp(operator=node.operator, index=place["value"], low=low, high=high)


def _holds(graph: Graph, value: Reference) -> bool:
    """Tell whether a value is, or has among its tensors, one of integers."""
    spec = graph.spec_of(value)
    return spec is None or spec.dtype in _INTEGERS


def _hands_on(node: Node) -> bool:
    """Tell whether a node's integers are elements of those that it is given."""
    if node.operator == GETITEM:
        return True
    if has_any(node.operator, "sorting", "reduction", "fill", "factory", "random") or _fills_in(node.operator):
        return False
    return has_any(node.operator, "aliases", "moves")


def _fills_in(operator: str) -> bool:
    """Tell whether an operator puts a number into its result: `masked_fill`, `where` with one, padding."""
    found = schema(operator)
    return found is not None and any(one.type in {"Scalar", "Scalar?"} for one in found.arguments)


def _is_within(graph: Graph, source: Reference, look_up: LookUp) -> bool:
    """Tell whether what makes these integers gives places of a dimension that is no longer than the one looked up."""
    node = graph.producer(source)
    read = [] if node is None else [graph.spec_of(one) for one in dict.fromkeys(node.references())]
    if node is None or len(read) != 1 or read[0] is None:
        return False
    if read[0].dtype == "bool" and has(node.operator, "transport"):
        return look_up.high >= 1
    is_place = node.operator.partition("::")[2].startswith("arg") or (
        read[0].dtype.startswith(("float", "bfloat"))
        and (has(node.operator, "sorting") or (has(node.operator, "reduction") and has(node.operator, "bounded")))
    )
    return is_place and max(read[0].shape, default=0) <= look_up.high + 1


def _changing(graph: Graph) -> set[Reference]:
    """Return the values that depend on variable inputs."""
    seen = set(graph.variables)
    for value, node in enumerate(graph.nodes, len(graph.inputs)):
        if any(reference in seen for reference in node.references()):
            seen.add(value)
    return seen
