"""What is lowered as one: blocks of a graph between places where a single value passes, and what they cost.

Inside such a block no cast is needed; at its border one is. Values that hang on no variable input (masks, positions)
may pass as well: they are computed once or are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from jumar.operators.flops import flops
from jumar.tune.graph import Graph, Reference
from jumar.tune.model.task import TensorSpec
from jumar.tune.plan.lowering.kinds import kind_of

MAX_UNITS = 32
"""Each unit costs a run of the model for each precision."""
FLOPS_PER_US = 50e3
BYTES_PER_US = 10e3
"""A core's usual speed; only the units' shares of the whole are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Consecutive nodes, and their share of the graph's estimated time."""

    nodes: tuple[Reference, ...]
    share: float


def units_of(graph: Graph, max_units: int = MAX_UNITS) -> list[Unit]:
    """Return the blocks of `graph`, in order, each with at least one product or convolution; none where it has none.

    There are at most `max_units`: the cheapest neighbours are put together.
    """
    blocks = _with_products(graph, _blocks(graph))
    costs = [sum(cost_us(graph, value) for value in block) for block in blocks]
    while len(blocks) > max_units:
        pairs = [first + second for first, second in pairwise(costs)]
        place = pairs.index(min(pairs))
        blocks[place : place + 2] = [blocks[place] + blocks[place + 1]]
        costs[place : place + 2] = [pairs[place]]
    whole = sum(costs) or 1.0
    return [Unit(nodes=tuple(block), share=cost / whole) for block, cost in zip(blocks, costs, strict=True)]


def cost_us(graph: Graph, value: Reference) -> float:
    """Return the estimated time of the node that makes `value`: operations at one rate plus bytes at another."""
    node = graph.producer(value)
    made = graph.spec_of(value)
    if node is None or made is None:
        return 0.0
    read = [spec for place in node.references() if (spec := graph.spec_of(place)) is not None]
    num_bytes = sum(map(_size, [*read, made])) * 4
    num_flops = flops(node.operator, [spec.shape for spec in read], [made.shape]) or 0
    return num_flops / FLOPS_PER_US + num_bytes / BYTES_PER_US


def _size(spec: TensorSpec) -> int:
    return math.prod(spec.shape)


def _blocks(graph: Graph) -> list[list[Reference]]:
    """Return all nodes, cut where exactly one value that hangs on the variable inputs is still needed."""
    first = len(graph.inputs)
    last = _last_reads(graph)
    moving = set(graph.variables)
    live: set[Reference] = set()
    blocks: list[list[Reference]] = [[]]
    for number, node in enumerate(graph.nodes):
        value = first + number
        if moving & set(node.references()):
            moving.add(value)
            live.add(value)
        live = {one for one in live if last.get(one, -1) > value}
        blocks[-1].append(value)
        if len(live) == 1 and graph.spec_of(next(iter(live))) is not None:
            blocks.append([])
    return [block for block in blocks if block]


def _last_reads(graph: Graph) -> dict[Reference, int]:
    """Return by value the number of the last node that reads it; beyond all for outputs."""
    last: dict[Reference, int] = {}
    for number, node in enumerate(graph.nodes):
        for value in node.references():
            last[value] = len(graph.inputs) + number
    end = len(graph.inputs) + len(graph.nodes)
    return last | {value: end for value in (*graph.outputs, *graph.effects) if value is not None}


def _with_products(graph: Graph, blocks: list[list[Reference]]) -> list[list[Reference]]:
    """Put blocks without a product or convolution to the one before them, the first ones to the one behind."""
    made: list[list[Reference]] = []
    waiting: list[Reference] = []
    for block in blocks:
        if any(kind_of(graph.nodes[value - len(graph.inputs)]) == "white" for value in block):
            made.append(waiting + block)
            waiting = []
        elif made:
            made[-1] = made[-1] + block
        else:
            waiting = waiting + block
    return made
