"""What operators of a graph are called in files: a name for each call, the vendor's type for each operator."""

from __future__ import annotations

from collections import Counter

from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.lowering.kinds import base_of
from jumar.tune.selection import vendor_types


def node_names(graph: Graph) -> dict[Reference, str]:
    """Return the operators' names by the values they make: `conv2d_0`, `conv2d_1`, … in the graph's order."""
    seen: Counter[str] = Counter()
    names: dict[Reference, str] = {}
    for number, node in enumerate(graph.nodes):
        if node.operator == GETITEM:
            continue
        base = base_of(node)
        names[len(graph.inputs) + number] = f"{base}_{seen[base]}"
        seen[base] += 1
    return names


def written_type(node: Node) -> str:
    """Return the type that is written for an operator: the vendor's (`Conv2D`), else PyTorch's (`view`)."""
    return min((kind for kind in vendor_types(node.operator) if kind), default=base_of(node))


def types_of(node: Node) -> frozenset[str]:
    """Return every type by which a file may mean an operator."""
    return vendor_types(node.operator) | {node.operator, node.operator.partition(".")[0], base_of(node)}
