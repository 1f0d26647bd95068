"""A plan of another graph of the same structure, fitted to this one: where a search starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jumar.tune.bank.neighbours import Neighbour
from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph
from jumar.tune.machine import Machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.plan import KIND


def transferred(neighbour: Neighbour, graph: Graph, engines: Sequence[Engine], machine: Machine) -> Plan | None:
    """Return the neighbour's plan for `graph`; None when an engine is not here, or does not take this graph.

    Regions stay: equal structure means equal numbers of values. A cut of the batch is scaled where the pieces come
    out whole, and dropped where they do not.
    """
    policy = next((one for one in neighbour.stack if one.kind == KIND), None)
    if policy is None:
        return None
    plan, known = Plan.of(policy), {engine.name: engine for engine in engines}
    for region in plan.regions:
        engine = known.get(region.engine)
        if engine is None or engine.unavailable(machine) or (not region.nodes and engine.unsupported(graph)):
            return None
    regions = tuple(_fitted(region, known[region.engine], neighbour, graph) for region in plan.regions)
    num_threads = None if plan.num_threads is None else min(plan.num_threads, machine.num_threads)
    batch = _scaled(plan.batch, graph)
    if plan.streams > 1 and not batch:  # nothing is left to run at once, each on a thread of its own
        return replace(plan, regions=regions, batch=(), streams=1, num_threads=None)
    return replace(plan, regions=regions, batch=batch, num_threads=num_threads)


def _fitted(region: Region, engine: Engine, neighbour: Neighbour, graph: Graph) -> Region:
    work, settings = neighbour.work, region.settings
    if isinstance(work, Graph):
        settings = engine.fitted(settings, work, graph)
    return replace(region, version=engine.version(), settings=settings)


def _scaled(batch: Sequence[int], graph: Graph) -> tuple[int, ...]:
    """Return the pieces of the batch in the same proportions for this graph's batch; empty where that is not whole."""
    rows = {graph.inputs[place].shape[0] for place in graph.variables if graph.inputs[place].shape}
    total = sum(batch)
    if not total or len(rows) != 1:
        return ()
    (size,) = rows
    pieces = [divmod(piece * size, total) for piece in batch]
    return () if any(rest or not whole for whole, rest in pieces) else tuple(whole for whole, _ in pieces)
