"""Where the weight of a product or convolution is, and along which dimension its scales run."""

from __future__ import annotations

from dataclasses import dataclass

from jumar.base.findings import Json
from jumar.tune.graph import Graph, Node, Reference, references
from jumar.tune.plan.lowering.lowering import base_of, may_be

_CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"})
_TRANSPOSED = 6
"""Place of `convolution`'s argument that says whether it is a transposed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The two operands of an operator that int8 knows."""

    activation: int
    """Place among the node's arguments."""
    read: Reference
    """The value there."""
    weight: int
    constant: Reference
    """The weight itself, an input of the graph; the argument is it, or its transpose."""
    axis: int
    """Dimension of `constant` that counts the operator's output channels: each has its own scale."""


def operands_of(graph: Graph, value: Reference) -> Operands | None:
    """Return the operands of the node that makes `value`; None when int8 does not know it or it has no weight."""
    node = graph.producer(value)
    if node is None or not may_be(graph, value, "int8"):
        return None
    base = base_of(node)
    if base in _CONVOLUTIONS or (base == "convolution" and not node.arguments[_TRANSPOSED]):
        return _direct(graph, node, activation=0, weight=1, axis=0)
    if base == "linear":
        return _direct(graph, node, activation=0, weight=1, axis=0)
    if base in {"mm", "matmul"}:
        return _product(graph, node, activation=0, weight=1)
    return _product(graph, node, activation=1, weight=2) if base == "addmm" else None


def _direct(graph: Graph, node: Node, *, activation: int, weight: int, axis: int) -> Operands | None:
    read, place = _value(node.arguments[activation]), _value(node.arguments[weight])
    if read is None or place is None or not _is_weight(graph, place):
        return None
    return Operands(activation=activation, read=read, weight=weight, constant=place, axis=axis)


def _product(graph: Graph, node: Node, *, activation: int, weight: int) -> Operands | None:
    """A matrix product: the weight's columns are the output channels, or its rows where it is transposed."""
    place = _value(node.arguments[weight])
    spec = None if place is None else graph.spec_of(place)
    if place is None or spec is None or len(spec.shape) != 2:
        return None
    if _is_weight(graph, place):
        return _direct(graph, node, activation=activation, weight=weight, axis=1)
    turned, read = graph.producer(place), _value(node.arguments[activation])
    if read is None or turned is None or not _swaps(turned):
        return None
    source = next(turned.references())
    if not _is_weight(graph, source):
        return None
    return Operands(activation=activation, read=read, weight=weight, constant=source, axis=0)


def _swaps(node: Node) -> bool:
    """Tell whether a node transposes a matrix."""
    base = base_of(node)
    if base == "t":
        return True
    if base == "transpose":
        return sorted(int(str(place)) % 2 for place in node.arguments[1:3]) == [0, 1]
    return base == "permute" and [int(str(place)) % 2 for place in _list(node.arguments[1])] == [1, 0]


def _list(argument: Json) -> list[Json]:
    return argument if isinstance(argument, list) else []


def _is_weight(graph: Graph, value: Reference) -> bool:
    return value < len(graph.inputs) and graph.inputs[value].constant


def _value(argument: Json) -> Reference | None:
    return next(references(argument), None)
