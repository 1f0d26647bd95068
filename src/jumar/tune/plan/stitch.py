"""Regions one after the other: values handed from each to those that read them, and freed after the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from jumar.tune.engines.base import GraphFunction
from jumar.tune.errors import TuneError
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Part


@dataclass(frozen=True, slots=True)
class Step:
    """A region's part in a call: values by their numbers in the whole graph."""

    takes: Sequence[int]
    gives: Sequence[int]
    frees: Sequence[int]


def parts_of(graph: Graph, regions: Sequence[Sequence[int]]) -> list[Part]:
    """Return the regions as graphs. Raises TuneError when they are not all nodes, each once, in an order that runs."""
    if graph.effects:
        raise TuneError("the graph writes to its inputs, so that it is computed as a whole; give it to one engine.")
    nodes = sorted(node for region in regions for node in region)
    if nodes != list(range(len(graph.inputs), len(graph.inputs) + len(graph.nodes))):
        raise TuneError("the regions of a plan must hold every node of its graph once; tune the graph again.")
    try:
        parts = [graph.part(region) for region in regions]
    except ValueError as error:
        raise TuneError(f"the graph cannot be cut there: {error}.") from error
    known = set(range(len(graph.inputs)))
    for part in parts:
        if not known.issuperset(part.taken):
            raise TuneError("a region of the plan reads what comes after it; tune the graph again.")
        known.update(part.given)
    return parts


def steps_of(graph: Graph, parts: Sequence[Part]) -> list[Step]:
    """Return what each region takes (variable values only), gives and is the last to need."""
    needed = {value for value in graph.outputs if value is not None}
    steps: list[Step] = []
    for part in reversed(parts):
        takes = [value for value in part.taken if not _is_weight(graph, value)]
        fresh = [value for value in (*takes, *part.given) if value not in needed]
        steps.append(
            Step(takes=takes, gives=part.given, frees=[value for value in fresh if value >= len(graph.inputs)])
        )
        needed.update(takes)
    return steps[::-1]


def stitched(
    graph: Graph, steps: Sequence[Step], functions: Sequence[GraphFunction], constants: Mapping[int, torch.Tensor]
) -> GraphFunction:
    """Return the whole graph as a function of its variable inputs."""
    variables = graph.variables
    weights = {value: constants[value] for value in graph.outputs if value is not None and _is_weight(graph, value)}
    calls = list(zip(steps, functions, strict=True))

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values = dict(zip(variables, tensors, strict=True)) | weights
        for step, function in calls:
            given = function(*[values[value] for value in step.takes])
            values.update(zip(step.gives, given, strict=True))
            for value in step.frees:
                del values[value]
        return tuple(None if value is None else values[value] for value in graph.outputs)

    return call


def _is_weight(graph: Graph, value: int) -> bool:
    return value < len(graph.inputs) and graph.inputs[value].constant
