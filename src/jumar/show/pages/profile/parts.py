"""What `advise` says of each step and rank -> stacked bars of the parts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from jumar.advise.bottlenecks import Advice
from jumar.show.blocks.profiles import StackedBars

MAX_BARS = 64


def step_bars(advice: Advice) -> StackedBars | None:
    """Return a bar for each step of a rank; None with fewer than two."""
    parts = [part for part in advice.parts if any(step.phase_us.get(part) for step in advice.steps)]
    if len(advice.steps) < 2 or not parts:
        return None
    bars = [
        (f"step {step.step}", [round(step.phase_us.get(part, 0.0) / 1000, 4) for part in parts])
        for step in advice.steps
    ]
    return _stacked(f"Parts of each step of rank {advice.rank}", parts, bars, "steps")


def rank_bars(all_ranks: Sequence[Advice]) -> StackedBars | None:
    """Return a bar for each rank with the medians of its parts over the steps after the first; None for one rank."""
    ranks = [one for one in all_ranks if one.steps and one.parts]
    if len(ranks) < 2:
        return None
    parts = [part for part in ranks[0].parts if any(_median(one, part) for one in ranks)]
    by_rank = sorted(ranks, key=lambda one: one.rank)
    bars = [(f"rank {one.rank}", [round(_median(one, part), 4) for part in parts]) for one in by_rank]
    return _stacked("Parts of a step by rank", parts, bars, "ranks")


def _median(advice: Advice, part: str) -> float:
    steps = advice.steps[1:] or advice.steps
    return statistics.median(step.phase_us.get(part, 0.0) for step in steps) / 1000


def _stacked(title: str, parts: Sequence[str], bars: Sequence[tuple[str, Sequence[float]]], what: str) -> StackedBars:
    """Keep the longest bars where there are many, in their order."""
    kept = sorted(sorted(range(len(bars)), key=lambda index: -sum(bars[index][1]))[:MAX_BARS])
    note = "" if len(kept) == len(bars) else f"The {len(kept)} slowest of {len(bars)} {what}."
    return StackedBars(title=title, unit="ms", parts=parts, bars=[bars[index] for index in kept], note=note)
