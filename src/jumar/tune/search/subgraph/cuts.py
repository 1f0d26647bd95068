"""Where a graph can be cut: borders that one value crosses (the articulation values of its dataflow).

Such borders lie between the residual blocks of a network. The blocks between them are put together until each holds
a share of the work that is worth the calls of an engine; equal blocks stay equal, because what is put together
depends on the blocks themselves only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from jumar.operators import has
from jumar.operators.flops import flops
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import GETITEM

Block = tuple[int, ...]
"""Numbers of the values that a block's nodes make, ascending and without gaps."""

MAX_BLOCKS = 24
"""A block's share of the work is at least about 1/24: finer cuts cost more calls than they gain."""


def blocks_of(graph: Graph, max_blocks: int = MAX_BLOCKS) -> list[Block]:
    """Return the blocks of a graph in order; a single one when it cannot be cut."""
    first, last = len(graph.inputs), len(graph.inputs) + len(graph.nodes)
    if graph.effects or not graph.nodes:
        return [tuple(range(first, last))]
    starts = [first, *borders(graph), last]
    pieces = [tuple(range(start, stop)) for start, stop in pairwise(starts)]
    loads = [sum(work_of(graph, value) for value in piece) for piece in pieces]
    least = sum(loads) / max_blocks
    while len(grown := _grown(pieces, loads, least)) > max_blocks:
        least = 1.25 * least or 1.0  # of views alone nothing is work
    return grown


def borders(graph: Graph) -> list[int]:
    """Return each node's number before which the graph can be cut: one variable value crosses, a single tensor."""
    first = len(graph.inputs)
    last_use: dict[int, int] = {}
    for number, node in enumerate(graph.nodes, first):
        for value in node.references():
            last_use[value] = number
    weights = set(graph.constants)
    alive = {value for value in graph.variables if value in last_use}
    found: list[int] = []
    for number in range(first, first + len(graph.nodes)):
        if number > first and len(alive) == 1:
            (value,) = alive
            if value >= first and graph.spec_of(value) is not None:
                found.append(number)
        if number in last_use:
            alive.add(number)
        alive -= {value for value in graph.nodes[number - first].references() if last_use[value] == number} - weights
    return found


def work_of(graph: Graph, value: int) -> float:
    """Return about how much a node does, in floating-point operations; moving a byte counts as four."""
    node = graph.producer(value)
    made = graph.spec_of(value)
    if node is None or made is None or node.operator == GETITEM:
        return 0.0
    if has(node.operator, "aliases"):
        return 0.0
    taken = [spec.shape for place in node.references() if (spec := graph.spec_of(place)) is not None]
    moved = 16.0 * sum(map(math.prod, [made.shape, *taken]))
    return moved + (flops(node.operator, taken, [made.shape]) or 2.0 * math.prod(made.shape))


def _grown(pieces: Sequence[Block], loads: Sequence[float], least: float) -> list[Block]:
    """Put pieces with too little work to the one before, the first ones to the one after."""
    found: list[Block] = []
    carried: Block = ()
    for piece, load in zip(pieces, loads, strict=True):
        if load >= least:
            found.append(carried + piece)
            carried = ()
        elif found:
            found[-1] += piece
        else:
            carried += piece
    return found or [carried]
