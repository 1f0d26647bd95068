"""Graphs whose images, volumes and filters have their channels last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from jumar.base.findings import Json
from jumar.tune.graph import Graph, Node, Reference

FORMATS = {4: "channels_last", 5: "channels_last_3d"}
RESHAPES = {"aten::view": "aten::reshape", "aten::_unsafe_view": "aten::reshape"}
"""What needs strides that a converted tensor may not have, and what copies where it must."""
CONTIGUOUS = "aten::contiguous"


def channels_last(graph: Graph) -> Graph:
    """Return a graph that converts its variable inputs first and makes its outputs contiguous last.

    Its weights are to be converted with `converted`. Its values are not known.
    """
    first = len(graph.inputs)
    turned = [place for place in graph.variables if len(graph.inputs[place].shape) in FORMATS]
    numbers = {place: first + number for number, place in enumerate(turned)}

    def number(value: Reference) -> Reference:
        return numbers.get(value, value) if value < first else value + len(turned)

    nodes = [_contiguous(place, FORMATS[len(graph.inputs[place].shape)]) for place in turned]
    nodes += [node.renumbered(number) for node in of_any_strides(graph).nodes]
    outputs: list[Reference | None] = []
    for value in graph.outputs:
        if value is None:
            outputs.append(None)
            continue
        nodes.append(_contiguous(number(value), "contiguous_format"))
        outputs.append(first + len(nodes) - 1)
    return replace(graph, nodes=nodes, outputs=outputs, values=())


def of_any_strides(graph: Graph) -> Graph:
    """Return the graph with no operator that depends on the strides of its input."""
    return replace(
        graph, nodes=[replace(node, operator=RESHAPES.get(node.operator, node.operator)) for node in graph.nodes]
    )


def converted(constants: Mapping[Reference, torch.Tensor]) -> dict[Reference, torch.Tensor]:
    """Return the weights, those of 4 and 5 dimensions with their channels last."""
    return {
        place: weight.contiguous(memory_format=getattr(torch, FORMATS[weight.dim()]))
        if weight.dim() in FORMATS
        else weight
        for place, weight in constants.items()
    }


def _contiguous(value: Reference, layout: str) -> Node:
    keywords: dict[str, Json] = {"memory_format": {"memory_format": layout}}
    return Node(operator=CONTIGUOUS, arguments=[{"value": value}], keywords=keywords)
