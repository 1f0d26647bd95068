"""Which unit gets which precision: the most time for the error that is allowed.

Errors of units that are lowered one by one are taken to add up like independent noise,

    predicted² = Σ error(unit, precision)²,

which is a guide only: every assignment that the search steps on is run once as a whole, and the ratio of that error
to the predicted one corrects the next predictions. From the fastest assignment, the moves with the most error taken
away for each bit of time given up come first (the greedy rule of the knapsack problem); then units are put back
where the error still allows it.

A `Unit` is lowered as one: a block of the graph between places where a single value passes. Inside such a block no
cast is needed; at its border one is. Values that hang on no variable input (masks, positions)
may pass as well: they are computed once or are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jumar.operators.flops import flops
from jumar.tune.graph import Graph, Reference
from jumar.tune.model.task import TensorSpec
from jumar.tune.plan.lowering.lowering import LowPrecision, kind_of

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


Choice = LowPrecision | None
"""A unit's precision; None: as the graph says."""
Assignment = tuple[Choice, ...]
Simulate = Callable[[Assignment], float]
"""Returns the error of the whole graph; infinite where it cannot be computed."""

MAX_PUT_BACK = 12
"""Units that are tried again at the end, those with the most to gain first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What is known of the units: by unit, and then by precision."""

    savings: Sequence[Mapping[LowPrecision, float]]
    """Share of the whole time that a precision saves."""
    errors: Sequence[Mapping[LowPrecision, float]]
    """Error of the whole graph when only this unit is lowered; infinite where it overflows."""

    def saving(self, assignment: Assignment) -> float:
        """Return the share of the whole time that an assignment saves."""
        return sum(saved[choice] for saved, choice in zip(self.savings, assignment, strict=True) if choice is not None)

    def predicted(self, assignment: Assignment) -> float:
        """Return the error by the formula of the module."""
        squares = (self.error(unit, choice) ** 2 for unit, choice in enumerate(assignment))
        return math.sqrt(sum(squares))

    def error(self, unit: int, choice: Choice) -> float:
        """Return one unit's error; none for one that is not lowered."""
        return 0.0 if choice is None else self.errors[unit].get(choice, math.inf)

    def fastest(self) -> Assignment:
        """Return the assignment that saves the most, whatever its error, as long as no unit alone overflows."""
        return tuple(self._fastest(unit) for unit in range(len(self.savings)))

    def _fastest(self, unit: int) -> Choice:
        options: list[Choice] = [name for name in self.savings[unit] if math.isfinite(self.error(unit, name))]
        return max([None, *options], key=lambda choice: self._saved(unit, choice))

    def _saved(self, unit: int, choice: Choice) -> float:
        return 0.0 if choice is None else self.savings[unit].get(choice, 0.0)

    def moves(self, assignment: Assignment) -> list[tuple[float, int, Choice]]:
        """Return (error² taken away for each share of time given up, unit, its new choice), the best first."""
        found: list[tuple[float, int, Choice]] = []
        for unit, now in enumerate(assignment):
            others: list[Choice] = [None, *self.savings[unit]]
            for other in others if now is not None else []:
                less = self.error(unit, now) ** 2 - self.error(unit, other) ** 2
                if other != now and less > 0:
                    lost = self._saved(unit, now) - self._saved(unit, other)
                    found.append((math.inf if lost <= 0 else less / lost, unit, other))
        return sorted(found, key=lambda move: (-move[0], move[1], str(move[2])))


@dataclass(slots=True)
class Assigner:
    """Finds assignments within a target; what was simulated once is not simulated again."""

    costs: Costs
    simulate: Simulate
    known: dict[Assignment, float] = field(default_factory=dict)

    def within(self, target: float) -> Assignment | None:
        """Return the assignment that saves most with a simulated error of at most `target`; None when only fp32 is."""
        assignment = self.costs.fastest()
        start = assignment
        while any(assignment) and (error := self.error(assignment)) > target:
            assignment = self._step(assignment, error, target)
        if not any(assignment):
            return None
        return self._put_back(assignment, start, target)

    def error(self, assignment: Assignment) -> float:
        """Return the simulated error."""
        if assignment not in self.known:
            self.known[assignment] = self.simulate(assignment) if any(assignment) else 0.0
        return self.known[assignment]

    def _step(self, assignment: Assignment, error: float, target: float) -> Assignment:
        """Move until the corrected prediction is within the target: at least one move."""
        predicted = self.costs.predicted(assignment)
        factor = error / predicted if predicted and math.isfinite(error) and math.isfinite(predicted) else 1.0
        while True:
            moves = self.costs.moves(assignment)
            if not moves:  # errors that no unit shows alone: give up the unit that saves least
                return self._without_least(assignment)
            _, unit, choice = moves[0]
            assignment = _with(assignment, unit, choice)
            if self.costs.predicted(assignment) * factor <= target:
                return assignment

    def _without_least(self, assignment: Assignment) -> Assignment:
        lowered = [unit for unit, choice in enumerate(assignment) if choice is not None]
        least = min(lowered, key=lambda unit: self.costs.saving(_only(assignment, unit)))
        return _with(assignment, least, None)

    def _put_back(self, assignment: Assignment, start: Assignment, target: float) -> Assignment:
        """Try faster choices for units that were moved, the greatest saving first, as long as the error allows."""
        gains = [
            (self.costs.saving(_only(start, unit)) - self.costs.saving(_only(assignment, unit)), unit)
            for unit in range(len(start))
        ]
        for gain, unit in sorted(gains, reverse=True)[:MAX_PUT_BACK]:
            tried = _with(assignment, unit, start[unit])
            if gain > 0 and self.error(tried) <= target:
                assignment = tried
        return assignment


def _with(assignment: Assignment, unit: int, choice: Choice) -> Assignment:
    return (*assignment[:unit], choice, *assignment[unit + 1 :])


def _only(assignment: Assignment, unit: int) -> Assignment:
    return tuple(choice if place == unit else None for place, choice in enumerate(assignment))
