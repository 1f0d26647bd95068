"""The leaders against each other: quick looks against eager say who may be the fastest, meetings say who is.

On a machine whose speed changes from second to second, a fifth up and down on shared hosts, two ratios to eager say
little about each other. Two plans that are called in turn see the same speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.tune.plan import Plan
from jumar.tune.subgraph.efforts import duel
from jumar.tune.subgraph.standings import Standings
from jumar.tune.subgraph.trials import Trials
from jumar.tune.subgraph.whole import Step

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
