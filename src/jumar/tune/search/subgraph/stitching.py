"""Several engines for one graph: blocks measured one by one, the cheapest way through them, checked end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph
from jumar.tune.model.folders import OwnFolder
from jumar.tune.plan import Plan, Region
from jumar.tune.search.subgraph.cuts import Block as Nodes
from jumar.tune.search.subgraph.cuts import blocks_of
from jumar.tune.search.subgraph.outcome import Block, Cutting, Stitched, plan_id
from jumar.tune.search.subgraph.regions import Choice, cheapest, costs_of, measure_blocks, runs, write_data
from jumar.tune.search.subgraph.trials import Trials, duel

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
