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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jumar.tune.engines.base import Engine
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain
from jumar.tune.plan import Plan, Region
from jumar.tune.search.subgraph.offers import Space, forms, mixed, variants, whole_plans
from jumar.tune.search.subgraph.outcome import GraphOutcome, Stage, plan_id
from jumar.tune.search.subgraph.standings import FAR_BEHIND, Standings, same
from jumar.tune.search.subgraph.trials import Trials

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
