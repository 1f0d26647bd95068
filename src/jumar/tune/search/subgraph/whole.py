"""The search among plans of one region: engines and their settings, the batch, threads and memory.

What is expected to be fast and is quick to try comes first, so that a search that is cut short has seen it:

    quick engines    the first settings of each, then the second of each, …; then each with its batch in
                     single rows, and with memory kept
    baseline         what every plan must beat: the bank's plan, else the faster of eager and TorchInductor's default
    slow engines     those that compile for tens of seconds; further settings only of one that is near the best
    variants         of the leaders: pieces of the batch, streams, threads, kept memory
    again            what other programs disturbed, and what may be the fastest for all that is known of it

Every quick look is a paired measurement against eager, which needs no building, so that drifts of the machine's
speed do not decide.

`whole_plans`, `variants` and `forms` offer the plans that are worth a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph
from jumar.tune.measure.options import Space
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.respecialise import batch_of, splits
from jumar.tune.search.subgraph.outcome import GraphOutcome, Stage, plan_id
from jumar.tune.search.subgraph.trials import FAR_BEHIND, Standings, Trials, same

MAX_SPLITS = 4
_MOST_PIECES = 16
"""Of a batch that is cut as finely as can be, for every engine."""
_MUCH_BYTES = 32 << 20
"""Kept memory is tried for graphs whose values take this much: glibc keeps less by itself."""


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


NEAR_TO_COMPILE = 1.3
"""A slow engine whose first settings take this many times the leader's time gets no further settings measured."""
NUM_LEADERS, NUM_LEADERS_DEEP = 2, 5
MOST_LOOKS = 3
"""So often is a plan looked at whose measurement other programs disturbed."""
BASELINE_SHARE = 0.75
"""Of the time left, for the baseline: without it nothing is known of what a plan is worth."""
INDUCTOR = "inductor"

Step = Callable[[str], None]
"""Told what is done next."""


@dataclass(slots=True, kw_only=True)
class WholePlans:
    """Measures plans of one region into `standings`; `outcome` is filled as it goes on."""

    trials: Trials
    engines: Mapping[str, Engine]
    space: Space
    outcome: GraphOutcome
    standings: Standings
    on_step: Step
    known: Plan | None
    """The plan in the bank, which a new one must beat."""
    hints: Sequence[Plan]
    """Plans to try first: those of the nearest graphs in the bank."""
    offers: Sequence[Plan] = ()
    _busy: dict[str, tuple[Plan, Stage]] = field(default_factory=dict)
    _looks: dict[str, int] = field(default_factory=dict)
    _unfinished: set[str] = field(default_factory=set)
    """Engines for which the budget left too little time."""
    _refused: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Pieces of the batch to why the graph is not cut into them; empty: it is."""

    def explore(self) -> None:
        """Measure what is worth it. Raises OutOfBudget, and GraphFailed for a graph that cannot be run."""
        offers = whole_plans(self.trials.graph, self.trials.machine, list(self.engines.values()), self.space)
        self.offers = [plan for plan in offers.plans if not same(plan, self.standings.eager)]
        self.outcome.left_out = dict(offers.left_out)
        if self.known is not None:
            self._find_baseline(self.known)
        for plan in self.sensible(self.hints):
            self.look(plan, "engines")
        self._try_engines([plan for plan in self.offers if not self._is_slow(plan)], FAR_BEHIND)
        self._try_forms()
        if self.known is None and (default := self._inductor_default()) is not None:
            self._find_baseline(default)
        slow = [plan for plan in self.offers if self._is_slow(plan)]
        self._try_engines(slow, NEAR_TO_COMPILE)
        self._look_again()
        leaders = self.standings.leaders(NUM_LEADERS_DEEP if self.space.is_deep else NUM_LEADERS)
        self._try_variants(leaders)
        self._look_again()

    def look(self, plan: Plan, stage: Stage, share: float | None = None) -> Gain | None:
        """Screen a plan against eager, unless it was; return its gain, None when it has none."""
        return self.standings.gain(plan) or self._measure(plan, stage, share)

    def _measure(self, plan: Plan, stage: Stage, share: float | None = None, *, is_again: bool = False) -> Gain | None:
        self.on_step(str(plan))
        looks = self._looks.get(plan_id(plan), 0)
        outcome = self.trials.screen(plan, None, stage, share=share, take=looks if is_again else 0)
        self._looks[plan_id(plan)] = looks + 1
        self._busy.pop(plan_id(plan), None)
        if outcome.status == "unfinished":
            self._unfinished.add(plan.regions[0].engine)
        if outcome.status == "busy" and self._looks[plan_id(plan)] < MOST_LOOKS:
            self._busy[plan_id(plan)] = (plan, stage)
        if outcome.status != "measured" or outcome.gain is None:
            return None
        self.standings.add(plan, outcome.gain)
        self.trials.keep_for_the_end(self.standings.best_gain())
        return self.standings.gain(plan)

    def sensible(self, plans: Iterable[Plan]) -> list[Plan]:
        """Leave out splits that the graph does not take, and say why."""
        return [plan for plan in plans if not plan.batch or not self._why_not_cut(tuple(plan.batch))]

    def _find_baseline(self, plan: Plan) -> None:
        """Measure what every plan must beat; `outcome.baseline` stays None, eager, where that is the faster one."""
        if same(plan, self.standings.eager):
            return
        gain = self.look(plan, "baseline", BASELINE_SHARE)
        while gain is None and plan_id(plan) in self._busy:
            gain = self.look(plan, "baseline", BASELINE_SHARE)
        if self.known is not None or (gain is not None and gain.ratio > 1):
            self.outcome.baseline = plan
        elif gain is None:
            last = self.trials.attempts[-1].outcome
            self.outcome.notes.append(f"Plans were compared with eager only: {plan} has no time ({last.detail}).")

    def _inductor_default(self) -> Plan | None:
        engine = self.engines.get(INDUCTOR)
        if engine is None or engine.unavailable(self.trials.machine) or engine.unsupported(self.trials.graph):
            return None
        return Plan(regions=(Region(nodes=(), engine=INDUCTOR, settings={}, version=engine.version()),))

    def _is_slow(self, plan: Plan) -> bool:
        return any(self.engines[region.engine].is_slow_to_build for region in plan.regions)

    def _try_engines(self, plans: Sequence[Plan], far_behind: float) -> None:
        """Measure each engine's settings, as long as its first ones are not far behind the best of all."""
        # The baseline is an engine's, too.
        first = {plan.regions[0].engine: ratio for plan in plans if (ratio := self.standings.ratio(plan)) > 0}
        leads = {plan.regions[0].engine: plan for plan in reversed(plans)}
        self.trials.prepare(plan for name, plan in leads.items() if name not in first)
        for plan in plans:
            engine = plan.regions[0].engine
            limit = FAR_BEHIND if self._is_untried(engine) else far_behind
            is_behind = engine in first and first[engine] * limit < self.standings.best_ratio()
            if is_behind and not self.space.is_deep:
                self._leave_out(plan, f"not measured: {engine} is far behind with its first settings", is_judged=True)
                continue
            if engine in self._unfinished:
                self._leave_out(plan, f"not measured: the time budget left too little for {engine}", is_judged=False)
                continue
            gain = self.look(plan, "engines")
            if gain is not None:
                first[engine] = max(first.get(engine, 0.0), gain.ratio)

    def _leave_out(self, plan: Plan, why: str, *, is_judged: bool) -> None:
        if plan_id(plan) not in self._looks:
            self.trials.leave_out(plan, why, is_judged=is_judged)

    def _is_untried(self, engine: str) -> bool:
        """Tell whether an engine's own first settings were not looked at yet (its defaults may be the baseline)."""
        own = [plan for plan in self.offers if plan.regions[0].engine == engine]
        return bool(own) and plan_id(own[0]) not in self._looks

    def _try_forms(self) -> None:
        """Cut the batch, and keep memory, for every quick engine: one that is slow as it is may be the fastest then."""
        machine, graph = self.trials.machine, self.trials.graph
        for plan in self.standings.best_of_engines().values():
            if self._is_slow(plan) or self._is_varied(plan):
                continue
            for form in self.sensible(forms(plan, graph, machine, self.space)):
                gain = self.look(form, "variants")
                if gain is None and self.trials.attempts[-1].outcome.status not in {"measured", "busy"}:
                    break  # what does not build in one form does not build in the next

    @staticmethod
    def _is_varied(plan: Plan) -> bool:
        return plan != Plan(regions=plan.regions)

    def _try_variants(self, leaders: Iterable[Plan]) -> None:
        for leader in leaders:
            base = self.standings.ratio(leader)
            better: list[Plan] = []
            plans = self.sensible(variants(leader, self.trials.graph, self.trials.machine, self.space))
            self.trials.prepare(plan for plan in plans if self.standings.gain(plan) is None)
            for plan in plans:
                gain = self.look(plan, "variants")
                if gain is not None and gain.ratio > base:
                    better.append(plan)
            better.sort(key=self.standings.ratio, reverse=True)
            both = mixed(leader, better[0], better[1]) if len(better) > 1 else None
            if both is not None:
                self.look(both, "variants")

    def _look_again(self) -> None:
        """Measure once more what other programs disturbed, or left in doubt; what was built then is not built again."""
        for plan, stage in list(self._busy.values()):
            self.look(plan, stage)
        for plan in self.standings.doubtful():
            if self._looks.get(plan_id(plan), 0) < MOST_LOOKS:
                self._measure(plan, "engines", is_again=True)

    def _why_not_cut(self, sizes: tuple[int, ...]) -> str:
        from jumar.tune.plan.batch import cut_batch

        if sizes not in self._refused:
            try:
                cut = cut_batch(self.trials.graph, sizes)
                for size in set(sizes):
                    cut.piece(size)
                self._refused[sizes] = ""
            except TuneError as error:
                self._refused[sizes] = self.outcome.not_cut["+".join(map(str, sizes))] = str(error)
        return self._refused[sizes]
