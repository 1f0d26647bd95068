"""The search for one graph's plan.

    baseline    eager or TorchInductor's default: the faster one is what every plan must beat
    engines     each engine's settings for the whole graph, the first of each engine first       a quick look each
    variants    of the leaders: pieces of the batch, streams, threads, kept memory               a quick look each
    duel        the leaders against each other                                                   more pairs
    stitched    several engines, block by block                                                  more pairs
    confirm     the best in a fresh process, other inputs, most pairs; then before and after once more

Every quick look is a paired measurement against eager, which needs no building, so that drifts of the machine's
speed do not decide. Nothing enters the bank that did not clear the gate twice, against the baseline, end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from jumar.tune.engines.base import Engine
from jumar.tune.gate import Gain
from jumar.tune.measuring import OutOfBudget
from jumar.tune.plan import Plan, Region
from jumar.tune.subgraph.efforts import duel
from jumar.tune.subgraph.offers import Offers, Space, mixed, variants, whole_plans
from jumar.tune.subgraph.outcome import Cutting, GraphOutcome, Stage, plan_id
from jumar.tune.subgraph.regions import Choice
from jumar.tune.subgraph.stitching import Stitcher
from jumar.tune.subgraph.trials import CONFIRMATION_SEED, MODEL_SEED, Trials

FAR_BEHIND = 2.0
"""An engine whose first settings take this many times the leader's time gets no further settings measured."""
NEAR = 1.15
"""Leaders within this factor of the best are compared with it directly."""
NUM_LEADERS, NUM_LEADERS_DEEP = 2, 5
NUM_DUELLISTS = 4
NUM_CONFIRMED = 3
"""Plans that are confirmed at most, the best first."""
NUM_CUT_ENGINES = 3

EAGER, INDUCTOR = "eager", "inductor"

Step = Callable[[str], None]
"""Told what is done next."""


@dataclass(slots=True, kw_only=True)
class GraphSearch:
    """One search. `outcome` is filled as it goes on."""

    trials: Trials
    engines: Mapping[str, Engine]
    space: Space
    outcome: GraphOutcome
    on_step: Step
    known: Plan | None = None
    """The plan in the bank, which a new one must beat."""
    hints: Sequence[Plan] = ()
    """Plans to try first: those of the nearest graphs in the bank."""
    gains: dict[str, tuple[Plan, Gain]] = field(default_factory=dict)
    """Against eager, by `plan_id`."""
    wins: list[Plan] = field(default_factory=list)
    """Winners of duels, the last one first."""

    def run(self) -> tuple[Plan, Gain] | None:
        """Return the plan that cleared the gate twice, with its last measurement; None when there is none.

        What ends the search before its own end is in `outcome.stopped_by`. Raises GraphFailed, and OutOfBudget when
        not even the baseline, or nothing of what was found, could be measured to its end.
        """
        self._find_baseline()
        try:
            self._explore()
        except OutOfBudget as error:
            self.outcome.stopped_by = str(error)
        return self._confirmed()

    def _find_baseline(self) -> None:
        known = self.known or self._inductor_default()
        if known is None or _same(known, self._eager()):
            return
        gain = self._look(known, "baseline")
        if self.known is not None or (gain is not None and gain.ratio > 1):
            self.outcome.baseline = known
        elif gain is None:
            last = self.trials.attempts[-1].outcome
            self.outcome.notes.append(f"Plans were compared with eager only: {known} has no time ({last.detail}).")

    def _inductor_default(self) -> Plan | None:
        engine = self.engines.get(INDUCTOR)
        if engine is None or engine.unavailable(self.trials.machine) or engine.unsupported(self.trials.graph):
            return None
        return Plan(regions=(Region(nodes=(), engine=INDUCTOR, settings={}, version=engine.version()),))

    def _explore(self) -> None:
        offers = whole_plans(self.trials.graph, self.trials.machine, list(self.engines.values()), self.space)
        self.outcome.left_out = dict(offers.left_out)
        for plan in self._sensible(self.hints):
            self._look(plan, "engines")
        self._try_engines(offers)
        self._try_variants(self._leaders())
        champion = self._duel()
        if champion is not None and self.space.can_cut:
            self._stitch(champion, offers)

    def _try_engines(self, offers: Offers) -> None:
        first: dict[str, float] = {}
        leads = {plan.regions[0].engine: plan for plan in reversed(offers.plans) if not _same(plan, self._eager())}
        self.trials.prepare(leads.values())
        for plan in offers.plans:
            engine = plan.regions[0].engine
            if _same(plan, self._eager()):
                continue
            if not self.space.is_deep and engine in first and first[engine] * FAR_BEHIND < self._best_ratio():
                self.trials.leave_out(plan, f"not measured: {engine} is far behind with its first settings")
                continue
            gain = self._look(plan, "engines")
            if gain is not None:
                first.setdefault(engine, gain.ratio)

    def _try_variants(self, leaders: Iterable[Plan]) -> None:
        for leader in leaders:
            base = self._ratio(leader)
            better: list[Plan] = []
            plans = self._sensible(variants(leader, self.trials.graph, self.trials.machine, self.space))
            self.trials.prepare(plan for plan in plans if plan_id(plan) not in self.gains)
            for plan in plans:
                gain = self._look(plan, "variants")
                if gain is not None and gain.ratio > base:
                    better.append(plan)
            better.sort(key=self._ratio, reverse=True)
            both = mixed(better[0], better[1]) if len(better) > 1 else None
            if both is not None:
                self._look(both, "variants")

    def _sensible(self, plans: Iterable[Plan]) -> list[Plan]:
        """Leave out splits that the graph does not take, and say why."""
        from jumar.tune.errors import TuneError
        from jumar.tune.plan.batch import cut_batch

        found, refused = [], dict[tuple[int, ...], str]()
        for plan in plans:
            if plan.batch:
                sizes = tuple(plan.batch)
                if sizes not in refused:
                    try:
                        cut = cut_batch(self.trials.graph, sizes)
                        for size in set(sizes):
                            cut.piece(size)
                        refused[sizes] = ""
                    except TuneError as error:
                        refused[sizes] = str(error)
                if refused[sizes]:
                    self.outcome.not_cut["+".join(map(str, sizes))] = refused[sizes]
                    continue
            found.append(plan)
        return found

    def _duel(self) -> Plan | None:
        """Let those near the best meet it directly; return the winner, None when nothing may beat the baseline."""
        ranked = [plan for plan in self._ranked() if self._ratio(plan) * NEAR >= self._best_ratio()][:NUM_DUELLISTS]
        if not ranked:
            return None  # without the engine for eager, and nothing that could be measured
        champion = ranked[0]
        for challenger in ranked[1:]:
            self.on_step(f"duel {challenger}")
            outcome = self.trials.screen(challenger, champion, "duel", duel(self.trials.options))
            if outcome.gain is not None and outcome.gain.ratio_low > 1:
                champion = challenger
        self.wins.insert(0, champion)
        return champion

    def _stitch(self, champion: Plan, offers: Offers) -> None:
        self.on_step("blocks")
        cutting = self.outcome.cutting = Cutting()
        times = [gain.before_us for _, gain in self.gains.values()]
        choices = self._choices(champion, offers, median(times)) if times else {}
        if len(choices) < 2:
            cutting.reason = "there is one engine only"
            return
        stitcher = Stitcher(
            trials=self.trials, engines=self.engines, choices=choices, champion=champion,
            champion_us=median(times) / self._ratio(champion),
        )  # fmt: skip
        plan = stitcher.find(cutting)
        if plan is not None:
            self.wins.insert(0, plan)

    def _choices(self, champion: Plan, offers: Offers, eager_us: float) -> dict[str, Choice]:
        """Return the engines for blocks, each with its best settings: the champion's first, then the next best.

        An engine that did not compute the whole graph may still compute blocks of it.
        """
        best: dict[str, tuple[float, Region]] = {}
        for plan in offers.plans:
            region = plan.regions[0]
            ratio = self._ratio(plan)
            if region.engine not in best or ratio > best[region.engine][0]:
                best[region.engine] = (ratio, region)
        own = champion.regions[0]
        best[own.engine] = (self._ratio(champion), own)
        order = sorted(best, key=lambda name: (name != own.engine, -best[name][0]))[:NUM_CUT_ENGINES]
        return {name: Choice(best[name][1], eager_us / best[name][0] if best[name][0] > 0 else None) for name in order}

    def _confirmed(self) -> tuple[Plan, Gain] | None:
        ranked = [plan for plan in self._ranked() if self._may_clear(plan)]
        candidates = {plan_id(plan): plan for plan in [*self.wins, *ranked]}
        for plan in list(candidates.values())[:NUM_CONFIRMED]:
            if _same(plan, self.outcome.baseline or self._eager()):
                continue
            self.on_step(f"confirm {plan}")
            if self._clears(plan, "confirmation", CONFIRMATION_SEED) is None:
                continue
            gain = self._clears(plan, "model", MODEL_SEED)
            if gain is not None:
                return plan, gain
        return None

    def _clears(self, plan: Plan, stage: Stage, seed: int) -> Gain | None:
        outcome = self.trials.confirm(plan, self.outcome.baseline, stage, seed)
        gain = outcome.gain if outcome.status == "measured" else None
        return gain if gain is not None and gain.clears(self.trials.options.min_gain) else None

    def _look(self, plan: Plan, stage: Stage) -> Gain | None:
        """Screen a plan against eager, unless it was; return its gain, None when it has none."""
        if plan_id(plan) in self.gains:
            return self.gains[plan_id(plan)][1]
        self.on_step(str(plan))
        outcome = self.trials.screen(plan, None, stage)
        if outcome.status != "measured" or outcome.gain is None:
            return None
        self.gains[plan_id(plan)] = (plan, outcome.gain)
        self.trials.keep_for_the_end(outcome.gain)
        return outcome.gain

    def _ranked(self) -> list[Plan]:
        """Return all that was measured, and eager, fastest first."""
        eager = self._eager()
        plans = [*([] if eager is None else [eager]), *(plan for plan, _ in self.gains.values())]
        return sorted(plans, key=self._ratio, reverse=True)

    def _leaders(self) -> list[Plan]:
        """Return the best plan of each engine that is not far behind, fastest first."""
        best: dict[str, Plan] = {}
        for plan in self._ranked():
            best.setdefault(plan.regions[0].engine, plan)
        count = NUM_LEADERS_DEEP if self.space.is_deep else NUM_LEADERS
        return [plan for plan in best.values() if self._ratio(plan) * FAR_BEHIND > self._best_ratio()][:count]

    def _ratio(self, plan: Plan) -> float:
        """Return eager's time over the plan's; 0 for a plan without a measurement."""
        if _same(plan, self._eager()):
            return 1.0
        known = self.gains.get(plan_id(plan))
        return 0.0 if known is None else known[1].ratio

    def _best_ratio(self) -> float:
        return max((gain.ratio for _, gain in self.gains.values()), default=1.0)

    def _may_clear(self, plan: Plan) -> bool:
        """Tell whether a plan may beat the baseline, by what is known of both."""
        known = self.gains.get(plan_id(plan))
        least = 1.0 if self.outcome.baseline is None else self._ratio(self.outcome.baseline)
        return known is not None and known[1].ratio_high >= least * (1 + self.trials.options.min_gain)

    def _eager(self) -> Plan | None:
        return self.trials.eager


def _same(plan: Plan, other: Plan | None) -> bool:
    return other is not None and plan_id(plan) == plan_id(other)


def is_default(plan: Plan) -> bool:
    """Tell whether a plan is what a graph runs as without one: eager, or TorchInductor's default."""
    return any(
        plan == Plan(regions=(Region(nodes=(), engine=name, version=plan.regions[0].version),))
        for name in (EAGER, INDUCTOR)
    )


def eager_plan(engines: Sequence[Engine]) -> Plan | None:
    """Return the plan that is eager; None without its engine."""
    engine = next((engine for engine in engines if engine.name == EAGER), None)
    return None if engine is None else Plan(regions=(Region(nodes=(), engine=EAGER, version=engine.version()),))
