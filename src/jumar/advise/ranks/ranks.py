"""`Ranks`: the parts of the steps of several ranks, the subject of the rules about them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jumar.advise.checks import NotChecked, finders, split
from jumar.advise.ranks.arrivals import Arrivals, arrivals
from jumar.advise.ranks.links import Link
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.findings import Finding
from jumar.timeline.collectives import Collectives
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
    collectives: Sequence[Collectives] = ()
    """Those of each rank, where they are known."""
    links: Sequence[Link] = ()
    """What the vendor's profiler measured of the links between ranks."""

    @cached_property
    def arrivals(self) -> Arrivals | None:
        """The matched collectives; None where fewer than two ranks have some in common."""
        return arrivals(self.collectives) if len(self.collectives) > 1 else None

    @cached_property
    def numbers(self) -> list[int]:
        """The ranks that are compared, in the order of the rows of `part_ms`."""
        return [one.rank for one in self.compared]

    @cached_property
    def steps(self) -> list[int]:
        """Numbers of the steps that every rank has, without the first of them.

        A rank with less than half of the steps that most ranks have (it ended early) does not shorten the list.
        """
        known = [{one.step.number for one in rank.steps} for rank in self.decompositions]
        usual = statistics.median(len(one) for one in known) if known else 0
        return sorted(set.intersection(*(one for one in known if 2 * len(one) >= usual)))[1:] if usual else []

    @cached_property
    def compared(self) -> list[Decomposition]:
        """The ranks that have all of `steps`."""
        wanted = set(self.steps)
        return [rank for rank in self.decompositions if wanted <= {one.step.number for one in rank.steps}]

    def part_ms(self, *parts: str) -> Numbers:
        """Return the milliseconds of these parts, a row a rank and a column a step."""
        rows = [{one.step.number: one.parts for one in rank.steps} for rank in self.compared]
        return np.array(
            [[sum(row[step].get(part, 0) for part in parts) / 1e6 for step in self.steps] for row in rows], float
        )

    @cached_property
    def own_ms(self) -> Numbers:
        """The milliseconds of a step in which a rank works itself and does not wait, a row a rank, a column a step."""
        rows = [{one.step.number: one.step.duration_ns / 1e6 for one in rank.steps} for rank in self.compared]
        whole = np.array([[row[step] for step in self.steps] for row in rows], float)
        return whole - self.part_ms(*WAITS)


def judge_ranks(ranks: Ranks) -> tuple[list[Finding], list[NotChecked]]:
    """Return the findings about several ranks of one run, and what could not be checked; nothing of one rank."""
    if len(ranks.decompositions) < 2:
        return [], []
    return split(outcome for module in finders(RULES) for outcome in module.find(ranks))
