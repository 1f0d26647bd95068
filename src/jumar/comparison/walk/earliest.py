"""Chooses, among what the ranks of a run show, the difference that comes first in the flow of data.

What one rank did wrong reaches the others through a collective: there the ranks that were right differ, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.comparison.measure.leaves import Leaf
from jumar.comparison.model.results import OperatorDiff
from jumar.comparison.walk.evidence import Evidenced
from jumar.comparison.walk.ranks import is_collective


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCause:
    """What ended the search on one rank."""

    ranks: tuple[int, int]
    first: OperatorDiff | None
    random: OperatorDiff | None
    nonfinite: OperatorDiff | None
    leaves: list[Leaf]
    leaves_step: int | None
    words: tuple[str, str, tuple[str, str]]
    """How data and parameters are related, and the states of the generators."""

    @property
    def step(self) -> int | None:
        """The step in which the search ended; None where nothing differs."""
        if self.leaves:
            return self.leaves_step
        diff = self.first or self.random
        return None if diff is None else diff.step

    @property
    def seq(self) -> int:
        """The place of the difference in the reference's step."""
        if self.leaves:
            return self.leaves[0].call.row.seq
        diff = self.first or self.random
        return (diff.reference_seq or 0) if diff is not None else 0

    @property
    def operator(self) -> str:
        """The operator that is named; empty for data and parameters."""
        diff = None if self.leaves else self.first or self.random
        return "" if diff is None else diff.reference_name or diff.target_name


def take(found: Evidenced, ranks: tuple[int, int]) -> RankCause:
    """Take what ended the search on the rank under way out of the evidence: the next rank begins without."""
    known = found.correspondence
    cause = RankCause(
        ranks=ranks,
        first=found.first,
        random=found.random,
        nonfinite=found.nonfinite,
        leaves=found.leaves,
        leaves_step=found.leaves_step,
        words=(known.data, known.parameters, known.drawn_from),
    )
    found.first = found.random = found.nonfinite = None
    found.leaves, found.leaves_step = [], None
    known.data, known.parameters, known.drawn_from = "", "", ("", "")
    return cause


def put(found: Evidenced, cause: RankCause) -> None:
    """Make the cause of one rank that of the comparison."""
    found.first, found.random, found.nonfinite = cause.first, cause.random, cause.nonfinite
    found.leaves, found.leaves_step = cause.leaves, cause.leaves_step
    known = found.correspondence
    known.data, known.parameters, known.drawn_from = cause.words


def earliest(found: Evidenced, causes: Sequence[RankCause]) -> RankCause:
    """Return the first cause: by step, by the number of collectives before it, those in a collective last."""
    differing = [cause for cause in causes if cause.step is not None]
    return min(differing, key=lambda cause: _place(found, cause)) if len(differing) > 1 else (differing or causes)[0]


def _place(found: Evidenced, cause: RankCause) -> tuple[int, int, bool]:
    step = cause.step or 0
    rows = found.reference.rows(step, cause.ranks[0])
    before = sum(is_collective(row.name) for row in rows if row.kind == "op" and row.seq < cause.seq)
    return step, before, is_collective(cause.operator)
