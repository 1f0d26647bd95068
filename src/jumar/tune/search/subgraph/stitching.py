"""Several engines for one graph: blocks measured one by one, the cheapest way through them, checked end to end.

Each block is measured in each engine; equal blocks are measured once. Dynamic programming finds the cheapest way
through the blocks, borders included.

Blocks b₁ … bₙ follow each other, one value crosses each border. With m(k, e) the measured time of block k alone in
engine e, and w(k, e, f) what it costs to go from e to f at the border before block k,

    best(k, f) = m(k, f) + minₑ (best(k−1, e) + w(k, e, f))

w(k, e, e) is negative: two blocks in one region save a call and the conversions, and may be fused. Time O(n·E²).
This is Viterbi's algorithm (A. Viterbi, *Error bounds for convolutional codes*, 1967).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import GETITEM, Part
from jumar.tune.model.process import OwnFolder
from jumar.tune.plan import Plan, Region
from jumar.tune.search.subgraph.cuts import Block as Nodes
from jumar.tune.search.subgraph.cuts import blocks_of
from jumar.tune.search.subgraph.outcome import Block, Cutting, Stitched, plan_id
from jumar.tune.search.subgraph.trials import Trials, duel

_CALL_US = 20.0
_BYTES_PER_US = 10_000.0
"""How what joining blocks saves is shared out among their borders: a call, and the bytes that cross. The sum of it
is measured; only the shares are by these."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine with its settings, and what it takes for the whole graph (None: it cannot, or was not measured)."""

    region: Region
    whole_us: float | None


def measure_blocks(
    trials: Trials, graph: Graph, blocks: Sequence[Nodes], choices: Mapping[str, Choice], frame: Plan,
    engines: Mapping[str, Engine], data: Sequence[Path],
) -> list[Block]:  # fmt: skip
    """Return the blocks with their times in microseconds by choice; `eager` is always among them where it runs.

    `frame` has threads, memory and layout of the plans; `data` the data file of each block. Raises OutOfBudget.
    """
    parts = [graph.part(block) for block in blocks]
    times: dict[str, dict[str, float]] = {}
    for part, path in zip(parts, data, strict=True):
        if part.graph.key not in times:
            times[part.graph.key] = _measure(trials, part, path, choices, frame, engines)
    return [
        Block(
            first=block[0],
            num_operators=sum(node.operator != GETITEM for node in part.graph.nodes),
            key=part.graph.key,
            engines_us=times[part.graph.key],
        )
        for block, part in zip(blocks, parts, strict=True)
    ]


def _measure(
    trials: Trials, part: Part, path: Path, choices: Mapping[str, Choice], frame: Plan, engines: Mapping[str, Engine]
) -> dict[str, float]:
    ratios: dict[str, float] = {}
    eager: list[float] = []
    for name, choice in choices.items():
        engine = engines[choice.region.engine]
        if engine.unsupported(part.graph):
            continue
        if choice.region.engine == "eager" and not choice.region.settings and frame.num_threads is None:
            ratios[name] = 1.0
            continue
        plan = replace(frame, regions=(replace(choice.region, nodes=()),), batch=(), streams=1, memory="default")
        outcome = trials.part(part.graph, path, plan)
        if outcome.status == "measured" and outcome.gain is not None:
            ratios[name] = outcome.gain.ratio
            eager.append(outcome.gain.before_us)
    base = median(eager) if eager else 0.0
    return {name: base / ratio for name, ratio in ratios.items() if eager}


def costs_of(graph: Graph, blocks: Sequence[Block], choices: Mapping[str, Choice], switch: float = 0.0) -> Costs:
    """Return the costs for `partition.cheapest`.

    What joining blocks saves an engine is the difference between its blocks one by one and its whole graph, both
    measured; each border gets a share by the bytes that cross it.
    """
    shares = [0.0, *(_share(graph, block.first) for block in blocks[1:])]
    total = sum(shares) or 1.0
    joined: dict[str, list[float]] = {}
    for name, choice in choices.items():
        times = [block.engines_us.get(name, math.inf) for block in blocks]
        if choice.whole_us is not None and math.isfinite(sum(times)):
            saved = max(0.0, sum(times) - choice.whole_us)
            joined[name] = [saved * share / total for share in shares]
    return Costs(blocks=[block.engines_us for block in blocks], joined=joined, switch=switch)


def _share(graph: Graph, first: int) -> float:
    """Return the weight of the border before a block: of the one value that crosses it."""
    crossing = [
        value
        for value in range(len(graph.inputs), first)
        if any(value in node.references() for node in graph.nodes[first - len(graph.inputs) :])
    ]
    specs = [spec for value in crossing if (spec := graph.spec_of(value)) is not None]
    return _CALL_US + sum(4 * math.prod(spec.shape) for spec in specs) / _BYTES_PER_US


def write_data(graph: Graph, data: str, blocks: Sequence[Nodes], folder: Path) -> list[Path]:
    """Run the graph once, in eager mode, and write each block's weights and inputs to a data file in `folder`."""
    import torch

    from jumar.tune.graph.capture.data import load, save
    from jumar.tune.graph.fx import to_fx
    from jumar.tune.graph.inputs import REAL_SEED, make_constants, make_inputs

    known = load(Path(data)) if data else {}
    values = make_constants(graph, known)
    values.update(zip(graph.variables, make_inputs(graph, REAL_SEED, known), strict=True))
    given = [values[place] for place in range(len(graph.inputs))]
    parts = [graph.part(block) for block in blocks]
    wanted = {value for part in parts for value in part.taken}

    class Noting(torch.fx.Interpreter):
        """Keeps the values at the borders."""

        number = len(graph.inputs)

        def call_function(self, target, args, kwargs):  # type: ignore[no-untyped-def]
            result = super().call_function(target, args, kwargs)
            if self.number in wanted:
                values[self.number] = result
            self.number += 1
            return result

    with torch.no_grad():
        Noting(to_fx(graph)).run(*given)
    paths = []
    for number, part in enumerate(parts):
        paths.append(folder / f"block-{number}.pt")
        save(paths[-1], {place: values[value] for place, value in enumerate(part.taken)})
    return paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """All times in microseconds."""

    blocks: Sequence[Mapping[str, float]]
    """Time of each block by engine; an engine that is absent cannot compute it."""
    joined: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By engine, what joining block k to the one before saves (place 0 stands for nothing); absent: nothing."""
    switch: float = 0.0
    """What a border between two engines costs beyond what their blocks measured alone."""

    def border(self, block: int, before: str, after: str) -> float:
        """Return what it costs to go from engine to engine before a block."""
        if before != after:
            return self.switch
        saved = self.joined.get(after)
        return 0.0 if saved is None else -saved[block]

    def total(self, engines: Sequence[str]) -> float:
        """Return the time of one engine a block."""
        blocks = sum(block[engine] for block, engine in zip(self.blocks, engines, strict=True))
        pairs = enumerate(pairwise(engines), 1)
        return blocks + sum(self.border(place, before, after) for place, (before, after) in pairs)


def cheapest(costs: Costs) -> tuple[list[str], float] | None:
    """Return one engine a block with the least total, and the total; None when a block has no engine."""
    if not costs.blocks or not all(costs.blocks):
        return None
    best = {engine: (time, [engine]) for engine, time in costs.blocks[0].items()}
    for place, block in enumerate(costs.blocks[1:], 1):
        best = {
            engine: min(
                (total + costs.border(place, before, engine) + time, [*path, engine])
                for before, (total, path) in best.items()
            )
            for engine, time in block.items()
        }
    total, path = min(best.values())
    return path, total


def runs(engines: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return neighbours of one engine as (first block, one past the last, engine)."""
    found: list[tuple[int, int, str]] = []
    for place, engine in enumerate(engines):
        if found and found[-1][2] == engine:
            found[-1] = (found[-1][0], place + 1, engine)
        else:
            found.append((place, place + 1, engine))
    return found


MAX_STITCHED = 3
"""Plans that are measured from end to end; each one that disappoints makes borders dearer for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stitcher:
    """Looks for plans of several regions that beat the best plan of one."""

    trials: Trials
    engines: Mapping[str, Engine]
    choices: Mapping[str, Choice]
    """By name; one a engine."""
    champion: Plan
    champion_us: float
    """Microseconds of the champion, from end to end."""

    def find(self, cutting: Cutting) -> Plan | None:
        """Return a stitched plan that is measured faster than the champion; `cutting` learns all that was seen.

        Raises OutOfBudget; what was measured until then is in `cutting`.
        """
        cutting.whole_us = self.champion_us
        cutting.best_whole = str(self.champion)
        cutting.own_engine = self.champion.regions[0].engine
        graph = self._graph(cutting)
        if graph is None:
            return None
        nodes = blocks_of(graph)
        if len(nodes) < 2:
            cutting.reason = "no value alone crosses the graph anywhere, so that it cannot be cut"
            return None
        with OwnFolder("jumar-blocks-") as folder:
            data = write_data(graph, self.trials.data, nodes, folder)
            cutting.blocks = measure_blocks(self.trials, graph, nodes, self.choices, self.champion, self.engines, data)
        return self._best(graph, nodes, cutting)

    def _graph(self, cutting: Cutting) -> Graph | None:
        """Return what is cut; None, with the reason, for what is not cut so far."""
        champion = self.champion
        if self.trials.graph.effects:
            cutting.reason = "the graph writes to its inputs, so that it is computed as a whole"
        elif champion.batch or champion.lowering or champion.layout != "default":
            cutting.reason = "the best plan cuts the batch, or changes layout or precision of the whole graph"
        else:
            return self.trials.graph
        return None

    def _best(self, graph: Graph, nodes: Sequence[Nodes], cutting: Cutting) -> Plan | None:
        switch, seen = 0.0, set[str]()
        gain = 1 + self.trials.options.min_gain
        for _ in range(MAX_STITCHED):
            found = cheapest(costs_of(graph, cutting.blocks, self.choices, switch))
            if found is None:
                cutting.reason = "a block was not computed by any engine"
                return None
            engines, promised_us = found
            regions = runs(engines)
            if len({engine for _, _, engine in regions}) < 2 or promised_us * gain > self.champion_us:
                cutting.reason = cutting.reason or "no way through the blocks promises more than the best engine alone"
                return None
            plan = replace(self.champion, regions=_regions(nodes, regions, self.choices))
            if plan_id(plan) in seen:
                cutting.reason = "the plans that promised most were not faster from end to end"
                return None
            seen.add(plan_id(plan))
            outcome = self.trials.screen(plan, self.champion, "stitched", duel(self.trials.options))
            measured = None if outcome.gain is None else self.champion_us / outcome.gain.ratio
            cutting.stitched.append(Stitched(plan=plan, engines=engines, promised_us=promised_us, measured_us=measured))
            if outcome.gain is not None and outcome.gain.ratio_low > 1:
                return plan
            if measured is None:
                cutting.reason = f"the stitched plan could not be measured ({outcome.detail or outcome.status})"
                return None
            switch += max(measured - promised_us, 0.0) / (len(regions) - 1)
        cutting.reason = "the plans that promised most were not faster from end to end"
        return None


def _regions(
    nodes: Sequence[Nodes], found: Sequence[tuple[int, int, str]], choices: Mapping[str, Choice]
) -> tuple[Region, ...]:
    return tuple(
        replace(choices[engine].region, nodes=tuple(value for block in nodes[start:stop] for value in block))
        for start, stop, engine in found
    )


def lost_at_borders(cutting: Cutting) -> list[tuple[int, Block, str, float]]:
    """Return (place, block, engine, ratio) of blocks that another engine than the whole's computes faster alone."""
    found = []
    for place, block in enumerate(cutting.blocks):
        own = block.engines_us.get(cutting.own_engine)
        if own is None:
            continue
        engine = min(block.engines_us, key=lambda name: block.engines_us[name])
        if block.engines_us[engine] < own:
            found.append((place, block, engine, own / block.engines_us[engine]))
    return found
