"""Takes what one step shows into the evidence: where the search ends, what is kept."""

from __future__ import annotations

from jumar.accuracy.evidence import Evidenced
from jumar.accuracy.leaves import Leaf
from jumar.accuracy.operators import Operators
from jumar.accuracy.options import CompareOptions
from jumar.accuracy.walk import StepOutcome

MAX_UNMATCHED = 5_000
"""Unmatched calls kept on each side; the counts in the findings are of these."""

MAX_STRUCTURE = 200
"""Structural differences kept."""


def ended(found: Evidenced) -> bool:
    """Return whether the search has ended: a divergence, other data or parameters, other random numbers."""
    return found.first is not None or bool(found.leaves) or found.random is not None


def collect(found: Evidenced, outcome: StepOutcome, step: int, *, is_first: bool, options: CompareOptions) -> None:
    """Take one step's outcome into `found`; `is_first` tells the first common step of its rank."""
    found.kinds.add(outcome.kind)
    if outcome.kind == "none":
        return
    found.steps.append(step)
    found.counts.update(outcome.operators.counts())
    _keep_operators(found, outcome.operators, options.max_operators)
    for kept, new in (
        (found.unmatched_reference, outcome.unmatched_reference),
        (found.unmatched_target, outcome.unmatched_target),
    ):
        kept.extend(new[: MAX_UNMATCHED - len(kept)])
        found.num_unmatched += sum(not call.layout_only for call in new)
    leaves = _leaves_that_matter(outcome, is_first=is_first)
    if leaves and not ended(found):
        found.leaves, found.leaves_step = leaves, step
    if not ended(found) or (found.leaves and found.leaves_step == step):
        found.random = outcome.random
        found.first = None if found.leaves or found.random else outcome.first
        found.nonfinite = outcome.nonfinite


def _leaves_that_matter(outcome: StepOutcome, *, is_first: bool) -> list[Leaf]:
    """Return the leaves that end the search: those read before the first divergence, data before parameters."""
    leaves = outcome.leaves[: outcome.num_leaves_before_first] if outcome.first else outcome.leaves
    if not is_first:
        return [leaf for leaf in leaves if not leaf.drifted]
    leaves = [leaf for leaf in leaves if leaf.call.row.phase == "forward"]
    return [leaf for leaf in leaves if leaf.role == "data"] or leaves


def _keep_operators(found: Evidenced, new: Operators, limit: int) -> None:
    room = limit - len(found.operators)
    if len(new) > room:
        new = Operators([diff for diff in new.judged() if diff.status not in {"agree", "not-compared"}][:room])
    found.operators.extend(new)
