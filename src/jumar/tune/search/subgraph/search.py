"""The search for one graph's plan.

    whole        plans of one region: engines, their settings, the batch, threads, memory (`whole`)  a quick look each
    duel         those that may be the fastest against each other (`duels`)                          more pairs
    stitched     several engines, block by block                                                     more pairs
    confirm      the best in a fresh process, other inputs, most pairs; then before and after once more

Nothing enters the bank that did not clear the gate twice, against the baseline, end to end.

The leaders against each other: quick looks against eager name the plans that may be the fastest; direct meetings
decide.

On a machine whose speed changes from second to second, a fifth up and down on shared hosts, two ratios to eager say
little about each other. Two plans that are called in turn see the same speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jumar.tune.engines.base import Engine
from jumar.tune.measure.measuring import OutOfBudget
from jumar.tune.measure.options import Space
from jumar.tune.model.gate import Gain
from jumar.tune.plan import Plan, Region
from jumar.tune.search.subgraph.outcome import Cutting, GraphOutcome, Stage, plan_id
from jumar.tune.search.subgraph.stitching import Choice, Stitcher
from jumar.tune.search.subgraph.trials import Standings, Trials, duel, same
from jumar.tune.search.subgraph.whole import INDUCTOR, MOST_LOOKS, Step, WholePlans

NUM_CONFIRMED = 3
"""Plans that are confirmed at most, the best first."""
NUM_CUT_ENGINES = 3

EAGER = "eager"


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
    wins: list[Plan] = field(default_factory=list)
    """Winners of duels, the last one first."""
    _standings: Standings = field(init=False)
    _whole: WholePlans = field(init=False)

    def __post_init__(self) -> None:
        self._standings = Standings(self.trials.eager)
        self._whole = WholePlans(
            trials=self.trials, engines=self.engines, space=self.space, outcome=self.outcome,
            standings=self._standings, on_step=self.on_step, known=self.known, hints=self.hints,
        )  # fmt: skip

    def run(self) -> tuple[Plan, Gain] | None:
        """Return the plan that cleared the gate twice, with its last measurement; None when there is none.

        What ends the search before its own end is in `outcome.stopped_by`. Raises GraphFailed, and OutOfBudget when
        no plan that was found could be measured to its end.
        """
        try:
            self._whole.explore()
            champion = self._duel()
            if champion is not None and self.space.can_cut and not self.trials.graph.gradients:
                self._stitch(champion)
        except OutOfBudget as error:
            self.outcome.stopped_by = str(error)
        if any(one.outcome.status == "unfinished" for one in self.outcome.attempts):
            self.outcome.stopped_by = self.outcome.stopped_by or "--time-budget"
        return self._confirmed()

    def _duel(self) -> Plan | None:
        """Let those that may be the fastest meet; return the winner, None when nothing may beat the baseline."""
        duels = Duels(trials=self.trials, standings=self._standings, on_step=self.on_step)
        try:
            return duels.hold()
        finally:
            if duels.champion is not None:
                self.wins.insert(0, duels.champion)

    def _stitch(self, champion: Plan) -> None:
        self.on_step("blocks")
        cutting = self.outcome.cutting = Cutting()
        eager_us = self._standings.eager_us()
        choices = {} if eager_us is None else self._choices(champion, eager_us)
        if eager_us is None or len(choices) < 2:
            cutting.reason = "there is one engine only"
            return
        stitcher = Stitcher(
            trials=self.trials, engines=self.engines, choices=choices, champion=champion,
            champion_us=eager_us / self._standings.ratio(champion),
        )  # fmt: skip
        plan = stitcher.find(cutting)
        if plan is not None:
            self.wins.insert(0, plan)

    def _choices(self, champion: Plan, eager_us: float) -> dict[str, Choice]:
        """Return the engines for blocks, each with its best settings: the champion's first, then the next best.

        An engine that did not compute the whole graph may still compute blocks of it.
        """
        best: dict[str, tuple[float, Region]] = {}
        offers = [*([] if self.trials.eager is None else [self.trials.eager]), *self._whole.offers]
        for plan in offers:
            region = plan.regions[0]
            ratio = self._standings.ratio(plan)
            if region.engine not in best or ratio > best[region.engine][0]:
                best[region.engine] = (ratio, region)
        own = champion.regions[0]
        best[own.engine] = (self._standings.ratio(champion), own)
        order = sorted(best, key=lambda name: (name != own.engine, -best[name][0]))[:NUM_CUT_ENGINES]
        return {name: Choice(best[name][1], eager_us / best[name][0] if best[name][0] > 0 else None) for name in order}

    def _confirmed(self) -> tuple[Plan, Gain] | None:
        self._note_missing_baseline()
        ranked = [plan for plan in self._standings.ranked() if self._may_clear(plan)]
        candidates = {plan_id(plan): plan for plan in [*self.wins, *ranked]}
        for plan in list(candidates.values())[:NUM_CONFIRMED]:
            if same(plan, self.outcome.baseline or self.trials.eager):
                continue
            self.on_step(f"confirm {plan}")
            if self._clears(plan, "confirmation", 0) is None:
                continue
            gain = self._clears(plan, "model", MOST_LOOKS)
            if gain is not None:
                return plan, gain
        return None

    def _note_missing_baseline(self) -> None:
        """Say when the budget ended before TorchInductor's default was measured."""
        outcome = self.outcome
        is_there = INDUCTOR in self.engines and INDUCTOR not in outcome.left_out
        if is_there and outcome.stopped_by and not any(one.stage == "baseline" for one in outcome.attempts):
            outcome.notes.append(
                f"Plans were compared with eager only: {outcome.stopped_by} ended the search before {INDUCTOR} had its "
                "turn."
            )

    def _clears(self, plan: Plan, stage: Stage, first: int) -> Gain | None:
        """Measure at length, again where other programs disturbed it; `first` is the number of the first take."""
        for look in range(MOST_LOOKS):
            outcome = self.trials.confirm(plan, self.outcome.baseline, stage, first + look)
            if outcome.status != "busy" or self.trials.is_late():
                break
        gain = outcome.gain if outcome.status == "measured" else None
        return gain if gain is not None and gain.clears(self.trials.options.min_gain) else None

    def _may_clear(self, plan: Plan) -> bool:
        """Tell whether a plan may beat the baseline, by what is known of both."""
        gain = self._standings.gain(plan)
        baseline = self.outcome.baseline
        least = 1.0 if baseline is None else self._standings.ratio(baseline)
        return gain is not None and gain.ratio_high >= least * (1 + self.trials.options.min_gain)


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


NUM_DUELLISTS = 6
"""Plans that meet at most: the best of each engine first, then the other forms of these."""
MOST_MEETINGS = 3
"""Of one pair, as long as it stays open which of the two is faster."""
TIE = 1.02
"""Two plans whose interval holds 1 and is no wider than this are equally fast."""


@dataclass(slots=True, kw_only=True)
class Duels:
    """Finds the fastest plan among those that may be it."""

    trials: Trials
    standings: Standings
    on_step: Step
    champion: Plan | None = None
    """The winner so far, also when a budget ends the meetings."""

    def hold(self) -> Plan | None:
        """Return the winner; None when nothing was measured. Raises OutOfBudget."""
        duellists = self.standings.duellists()
        if not duellists:
            return None  # without the engine for eager, and nothing that could be measured
        self.champion = duellists[0]
        for challenger in duellists[1:NUM_DUELLISTS]:
            if self._is_faster(challenger, self.champion):
                self.champion = challenger
        return self.champion

    def _is_faster(self, challenger: Plan, champion: Plan) -> bool:
        """Let two plans meet until one is ahead beyond doubt; where none ever is, the mean of all meetings decides."""
        ratios: list[float] = []
        for number in range(MOST_MEETINGS):
            self.on_step(f"duel {challenger}")
            outcome = self.trials.screen(challenger, champion, "duel", duel(self.trials.options), take=number)
            gain = outcome.gain
            if gain is None:
                if outcome.status != "busy":
                    return False
                continue
            ratios.append(gain.ratio)
            if not gain.ratio_low <= 1 <= gain.ratio_high:
                return gain.ratio > 1
            if gain.ratio_high <= gain.ratio_low * TIE:
                return False
        return is_ahead(ratios)


def is_ahead(ratios: Sequence[float]) -> bool:
    """Tell whether the geometric mean of ratios is above that of a tie."""
    return bool(ratios) and math.fsum(map(math.log, ratios)) / len(ratios) > math.log(TIE) / 2
