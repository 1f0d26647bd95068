"""The plans worth a measurement for a whole graph: engines and their settings, then what else can be varied."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from jumar.tune.engines.base import Engine, Precision
from jumar.tune.graph import Graph
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.resize import batch_of, splits

MAX_SPLITS = 4
_MOST_PIECES = 16
"""Of a batch that is cut as finely as can be, for every engine."""
_MUCH_BYTES = 32 << 20
"""Kept memory is tried for graphs whose values take this much: glibc keeps less by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched."""

    is_uneven: bool = False
    """Uneven splits of the batch too (`--Fnonhomo_split`)."""
    is_deep: bool = False
    """Everything for more leaders: several times the measurements (`--Fdeeper_opat`)."""
    can_cut: bool = True
    """Plans of several regions too."""
    keeps_layout: bool = False
    """No engine may be told to compute in another layout."""
    precision: Precision = "fp32"
    error_budget: float | None = None
    """As `Trial.error_budget`."""
    engines: Sequence[str] | None = None
    """Names of the engines to try; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """Plans of one region, and the engines that were left out, with why."""

    plans: Sequence[Plan]
    left_out: Mapping[str, str] = field(default_factory=dict)


def whole_plans(graph: Graph, machine: Machine, engines: Sequence[Engine], space: Space) -> Offers:
    """Return every engine's settings for the whole graph: the first of each engine, then the second of each, …"""
    lists: list[list[Plan]] = []
    left_out: dict[str, str] = {}
    for engine in engines:
        if space.engines is not None and engine.name not in space.engines:
            continue
        why = engine.unavailable(machine) or engine.unsupported(graph)
        if graph.gradients and not engine.takes_steps:
            why = "It computes no gradients."
        if why:
            left_out[engine.name] = why
            continue
        regions = [
            Region(nodes=(), engine=engine.name, settings=settings, version=engine.version())
            for settings in engine.settings(graph, machine, space.precision)
            if not (space.keeps_layout and settings.get("layout"))
        ]
        lists.append([Plan(regions=(region,)) for region in regions])
    rounds = zip_longest(*lists)
    return Offers(plans=[plan for one in rounds for plan in one if plan is not None], left_out=left_out)


def variants(plan: Plan, graph: Graph, machine: Machine, space: Space) -> list[Plan]:
    """Return `plan` with another number of threads, pieces of the batch, streams, or kept memory; one change each."""
    cuts = batch_splits(graph, space)
    found = [replace(plan, batch=sizes, streams=1) for sizes in cuts]
    found += _side_by_side(plan, machine, cuts)[:1]
    # The backward of a training step is PyTorch's to call, with its number of threads.
    if machine.num_threads > 1 and plan.streams == 1 and not graph.gradients:
        counts = [1] if machine.num_threads < 4 else [machine.num_threads // 2, 1]
        found += [replace(plan, num_threads=count) for count in counts]
    return [one for one in [*found, *_keeping(plan, graph, machine)] if one != plan]


def forms(plan: Plan, graph: Graph, machine: Machine, space: Space) -> list[Plan]:
    """Return what may turn an engine that is slow into a fast one: single rows, one by one and side by side; memory.

    A batch of many rows is cut into the most pieces instead.
    """
    cuts = [sizes for sizes in batch_splits(graph, space) if len(sizes) <= _MOST_PIECES]
    most = [max(cuts, key=len)] if cuts else []
    in_pieces = [replace(plan, batch=sizes) for sizes in most]
    return [*in_pieces, *_side_by_side(plan, machine, most), *_keeping(plan, graph, machine)]


def _keeping(plan: Plan, graph: Graph, machine: Machine) -> list[Plan]:
    """Return `plan` with memory kept, for a graph whose values are large; the memory is the host's."""
    if machine.device != "cpu":
        return []
    is_large = sum(4 * math.prod(spec.shape) for spec in graph.values if spec is not None) >= _MUCH_BYTES
    return [replace(plan, memory="keep")] if is_large else []


def _side_by_side(plan: Plan, machine: Machine, cuts: Sequence[tuple[int, ...]]) -> list[Plan]:
    """Return `plan` with as many pieces at once as there are threads, each on one of them."""
    count = machine.num_threads
    fitting = [sizes for sizes in cuts if len(sizes) % count == 0] if count > 1 else []
    return [replace(plan, batch=sizes, streams=count, num_threads=1) for sizes in fitting]


def batch_splits(graph: Graph, space: Space) -> list[tuple[int, ...]]:
    """Return the splits to try: halves first, then single rows, then what lies between."""
    if graph.effects or graph.gradients:
        return []
    found = splits(batch_of(graph), is_uneven=space.is_uneven)
    return (found[:1] + found[-1:] + found[1:-1])[:MAX_SPLITS] if len(found) > 1 else found


def mixed(plan: Plan, first: Plan, second: Plan) -> Plan | None:
    """Return the changes that two variants make to `plan` together; None when they change the same."""
    changes = [
        {name: value for name in ("batch", "num_threads", "memory", "streams", "layout")
         if (value := getattr(variant, name)) != getattr(plan, name)}
        for variant in (first, second)
    ]  # fmt: skip
    if first.regions != second.regions or set(changes[0]) & set(changes[1]) or not all(changes):
        return None
    return replace(first, **changes[1])
