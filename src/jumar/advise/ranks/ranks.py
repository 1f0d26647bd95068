"""`Ranks`: the parts of the steps of several ranks, the subject of the rules about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jumar.advise.checks import NotChecked, finders, split
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.findings import Finding
from jumar.timeline.decompose import Decomposition

RULES = "advise.ranks"
WAITS = ("collective", "wait")
"""Parts of a step in which a rank may only wait for another."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Ranks of one run and the steps that all of them have, without the first."""

    decompositions: Sequence[Decomposition]
    thresholds: Thresholds

    @cached_property
    def numbers(self) -> list[int]:
        """The ranks."""
        return [one.rank for one in self.decompositions]

    @cached_property
    def steps(self) -> list[int]:
        """Numbers of the steps that every rank has, without the first of them."""
        known = [{one.step.number for one in rank.steps} for rank in self.decompositions]
        return sorted(set.intersection(*known))[1:] if known else []

    def part_ms(self, *parts: str) -> Numbers:
        """Return the milliseconds of these parts, a row a rank and a column a step."""
        rows = [{one.step.number: one.parts for one in rank.steps} for rank in self.decompositions]
        return np.array(
            [[sum(row[step].get(part, 0) for part in parts) / 1e6 for step in self.steps] for row in rows], float
        )

    @cached_property
    def own_ms(self) -> Numbers:
        """The milliseconds of a step in which a rank works itself and does not wait, a row a rank, a column a step."""
        rows = [{one.step.number: one.step.duration_ns / 1e6 for one in rank.steps} for rank in self.decompositions]
        whole = np.array([[row[step] for step in self.steps] for row in rows], float)
        return whole - self.part_ms(*WAITS)


def judge_ranks(
    decompositions: Sequence[Decomposition], thresholds: Thresholds
) -> tuple[list[Finding], list[NotChecked]]:
    """Return the findings about several ranks of one run, and what could not be checked; nothing of one rank."""
    if len(decompositions) < 2:
        return [], []
    ranks = Ranks(decompositions=decompositions, thresholds=thresholds)
    return split(outcome for module in finders(RULES) for outcome in module.find(ranks))
