"""How an assignment of precisions becomes a plan: written into the graph, or set in an engine for each region.

Int8 is always written into the graph. Bf16 and fp16 are where the engine has no setting for them; an engine that has
one takes the type of the whole region from it, whatever casts are in the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from jumar.base.native import features, features_in
from jumar.tune.engines.base import Engine, Precision, Settings
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.lowering.lowering import Lowering, LowPrecision, Range
from jumar.tune.plan.lowering.movers import Groups, sources_of
from jumar.tune.plan.lowering.rewrite import effective, lowered, rounded
from jumar.tune.plan.lowering.weights import operands_of
from jumar.tune.search.precision.assign import Assignment, Choice, Unit

INT8_ENGINES = frozenset({"openvino", "onnxruntime"})
"""Engines that compute the roundings of int8 and the operator behind them in one kernel; others would only round."""
MAX_SETTINGS = 2
"""Settings of an engine that are measured for each precision."""

_FLAGS: Mapping[LowPrecision, frozenset[str]] = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16", "asimdhp"}),
}
"""What Linux calls the instructions, on x86 and on Arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One engine, and how it is told precisions."""

    engine: Engine
    in_graph: bool
    early: bool = False
    """As in `Lowering`."""

    @property
    def name(self) -> str:
        """`openvino by casts`, `openvino by casts, early`, `openvino by setting`."""
        how = "by casts" if self.in_graph else "by setting"
        return f"{self.engine.name} {how}{', early' if self.early else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is lowered."""

    graph: Graph
    units: Sequence[Unit]
    machine: Machine
    ranges: Mapping[Reference, Range]

    def lowering(self, assignment: Assignment, *, early: bool = False) -> Lowering:
        """Return the lowering of an assignment, with the ranges that int8 needs."""
        nodes = {
            value: choice
            for unit, choice in zip(self.units, assignment, strict=True)
            if choice is not None
            for value in unit.nodes
        }
        return self.ranged(nodes, early=early)

    def ranged(self, nodes: Mapping[Reference, LowPrecision], *, early: bool = False) -> Lowering:
        """Return a lowering of nodes. One that would read a value without a range (not finite) stays as it is."""
        groups = Groups(self.graph) if early else None
        kept: dict[Reference, LowPrecision] = {}
        ranges: dict[Reference, Range] = {}
        for value, precision in nodes.items():
            operands = operands_of(self.graph, value) if precision == "int8" else None
            needed = () if operands is None else sources_of(groups, operands.read)
            if precision == "int8" and (not needed or not self.ranges.keys() >= set(needed)):
                continue
            kept[value] = precision
            ranges |= {one: self.ranges[one] for one in needed}
        return Lowering(nodes=kept, ranges=ranges, early=early)

    def assignment(self, nodes: Mapping[Reference, LowPrecision]) -> Assignment:
        """Return the assignment of the units of which a list of nodes names every operator, in one precision."""
        return tuple(self._choice(unit, nodes) for unit in self.units)

    def _choice(self, unit: Unit, nodes: Mapping[Reference, LowPrecision]) -> Choice:
        for precision in dict.fromkeys(nodes[value] for value in unit.nodes if value in nodes):
            low = effective(self.graph, Lowering(nodes=dict.fromkeys(unit.nodes, precision)))
            named = [value for value in low if self.graph.nodes[value - len(self.graph.inputs)].operator != GETITEM]
            if named and all(nodes.get(value) == precision for value in named):
                return precision
        return None

    def plans(self, way: Way, assignment: Assignment) -> list[Plan]:
        """Return the plans of an assignment, the most promising first; empty when the engine takes none of it."""
        if way.in_graph:
            return self.plans_in_graph(way.engine, self.lowering(assignment, early=way.early))
        return self._plans_by_setting(way.engine, assignment)

    def plans_in_graph(self, engine: Engine, lowering: Lowering) -> list[Plan]:
        """Return the plans of one engine for the lowered graph; none where no operator is really lowered."""
        if not effective(self.graph, lowering):
            return []
        made = lowered(self.graph, lowering).graph
        if engine.unsupported(made):
            return []
        return [
            Plan(regions=(_region((), engine, settings),), lowering=lowering)
            for settings in self._settings(engine, made, "fp32")
        ]

    def _plans_by_setting(self, engine: Engine, assignment: Assignment) -> list[Plan]:
        if len(set(assignment)) == 1:
            whole = self._settings(engine, self.graph, assignment[0] or "fp32")
            return [Plan(regions=(_region((), engine, settings),)) for settings in whole]
        regions: list[Region] = []
        for choice, members in groupby(zip(self.units, assignment, strict=True), key=lambda pair: pair[1]):
            nodes = tuple(value for unit, _ in members for value in unit.nodes)
            found = self._settings(engine, self.graph.part(nodes).graph, choice or "fp32")
            if not found:
                return []
            regions.append(_region(nodes, engine, found[0]))
        return [Plan(regions=tuple(regions))]

    def _settings(self, engine: Engine, graph: Graph, precision: Precision) -> Sequence[Settings]:
        return engine.settings(graph, self.machine, precision)[:MAX_SETTINGS]


def ways_of(
    graph: Graph, machine: Machine, engines: Sequence[Engine], precisions: Sequence[LowPrecision]
) -> tuple[list[tuple[Way, LowPrecision]], dict[str, str]]:
    """Return the ways to lower a whole graph to each precision, and the engines left out, with why.

    Int8 has two, the values rounded where they are read and where they are made, if that is not the same.
    """
    moves = has_moved(graph) if "int8" in precisions else False
    found: list[tuple[Way, LowPrecision]] = []
    left_out: dict[str, str] = {}
    for engine in engines:
        if why := engine.unavailable(machine) or engine.unsupported(graph):
            left_out[engine.name] = why
            continue
        for precision in precisions:
            if precision != "int8" and engine.settings(graph, machine, precision):
                found.append((Way(engine=engine, in_graph=False), precision))
            elif precision != "int8" or engine.name in INT8_ENGINES:
                found.append((Way(engine=engine, in_graph=True), precision))
            if precision == "int8" and engine.name in INT8_ENGINES and moves:
                found.append((Way(engine=engine, in_graph=True, early=True), precision))
    return found, left_out


def has_moved(graph: Graph) -> bool:
    """Tell whether rounding early is another thing than rounding late, with all of `graph` in int8."""
    first = len(graph.inputs)
    nodes: dict[Reference, LowPrecision] = dict.fromkeys(range(first, first + len(graph.nodes)), "int8")
    return rounded(graph, Lowering(nodes=nodes)) != rounded(graph, Lowering(nodes=nodes, early=True))


def arithmetic(cpuinfo: str | None = None) -> dict[LowPrecision, str]:
    """Return the floating-point types this processor does not compute in, with why; empty where that is not known.

    `cpuinfo` is the content of /proc/cpuinfo (None: this machine's). Without the instructions each operation
    converts there and back, which is slower than float32.
    """
    flags = features() if cpuinfo is None else features_in(cpuinfo)
    if not flags:
        return {}
    return {
        precision: f"this processor has no {precision} arithmetic ({' or '.join(sorted(names))})"
        for precision, names in _FLAGS.items()
        if not flags & names
    }


def _region(nodes: tuple[Reference, ...], engine: Engine, settings: Settings) -> Region:
    return Region(nodes=nodes, engine=engine.name, settings=dict(settings), version=engine.version())
