"""`Evidenced`: the evidence for a verdict, gathered during the walk through two recordings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

from jumar.comparison.measure.leaves import Leaf
from jumar.comparison.measure.records import Operators
from jumar.comparison.measure.tolerance import NoiseFloor
from jumar.comparison.model.correspondence import Correspondence, Shortfall
from jumar.comparison.model.drift import Drift
from jumar.comparison.model.options import CompareOptions
from jumar.comparison.model.results import Evidence, LossPair, OperatorDiff, RunSummary, UnmatchedCall
from jumar.comparison.model.settings import SettingDiff
from jumar.comparison.walk.skipped_updates import SkippedUpdate
from jumar.comparison.walk.step_walk import StepOutcome
from jumar.comparison.walk.tally import Tally
from jumar.recording.reader import RecordingLike


@dataclass(slots=True)
class Evidenced:
    """The evidence for a verdict."""

    reference: RecordingLike
    target: RecordingLike
    settings: list[SettingDiff] = field(default_factory=list)
    operators: Operators = field(default_factory=Operators)
    counts: Counter[str] = field(default_factory=Counter)
    unmatched_reference: list[UnmatchedCall] = field(default_factory=list)
    unmatched_target: list[UnmatchedCall] = field(default_factory=list)
    losses: list[LossPair] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    first: OperatorDiff | None = None
    random: OperatorDiff | None = None
    nonfinite: OperatorDiff | None = None
    leaves: list[Leaf] = field(default_factory=list)
    leaves_step: int | None = None
    floor: NoiseFloor | None = None
    """Measured from floor recordings; None to estimate it."""
    coarsest: float = 0.0
    kinds: set[str] = field(default_factory=set)
    foreign_operators: bool = False
    """The runs' operators share no name, as those of two frameworks: modules were compared."""
    skipped: list[SkippedUpdate] = field(default_factory=list)
    """Updates that only one run made."""
    tally: Tally = field(default_factory=Tally)
    """How much of the recordings was compared."""
    shares: dict[str, list[int]] = field(default_factory=lambda: {"steps": [0, 0, 0], "ranks": [0, 0, 0]})
    """Steps and ranks: compared, in the reference, in the target."""
    absent: list[str] = field(default_factory=list)
    """Steps and ranks that only one run has, though nobody asked for fewer; one sentence each."""
    against: list[Shortfall] = field(default_factory=list)
    """What stands against an agreement where no value does."""
    drifts: list[Drift] = field(default_factory=list)
    """Of each rank whose runs both have a history: all steps."""
    correspondence: Correspondence = field(default_factory=Correspondence)
    """Structure, names, steps, ranks: what is known beside the values."""


FOREIGN = 2.0
"""Calls without a partner for each pair from which two recordings are taken to be of different programs."""


def incomparable(found: Evidenced) -> str:
    """Return why nothing could be compared, or an empty string."""
    if found.correspondence.ranks_only:
        return "" if found.steps else "the ranks have no step in common"
    if not found.steps and not found.kinds and (ranks := other_ranks(found)):
        return ranks
    if not found.steps:
        return f"the recordings have no {'level in common (operators or modules)' if found.kinds else 'step in common'}"
    compared = sum(found.counts[status] for status in ("agree", "inherited", "diverge", "random"))
    num_extra = sum(map(len, found.tally.extra))
    noun = "calls" if found.tally.has_inputs else "tensors"
    reasons = (
        *(
            (recording.info.values == "none", f"the {side} holds no values (recorded with --values none)")
            for side, recording in (("reference", found.reference), ("target", found.target))
        ),
        (
            (found.reference.info.values == "hash") != (found.target.info.values == "hash"),
            "one recording holds hashes only, the other one none",
        ),
        (
            num_extra > FOREIGN * found.tally.num_pairs,
            f"{num_extra:,} {noun} have no partner and {found.tally.num_pairs:,} have one, "
            "so these are not runs of one program",
        ),
        (not compared and not found.leaves, "the recordings hold no values to compare"),
    )
    return next((words for holds, words in reasons if holds), "")


def other_ranks(found: Evidenced) -> str:
    """Return that the recordings have no rank in common; empty where they have one."""
    reference, target = sorted(found.reference.ranks), sorted(found.target.ranks)
    if not reference or not target or set(reference) & set(target):
        return ""
    return f"the recordings have no rank in common (reference {_listed(reference)}, target {_listed(target)})"


def _listed(ranks: list[int]) -> str:
    return f"{', '.join(map(str, ranks[:4]))}{', …' if len(ranks) > 4 else ''}"


def summary(recording: RecordingLike) -> RunSummary:
    """Return which run a recording is of."""
    info = recording.info
    ranks = tuple(recording.ranks)
    return RunSummary(
        path=str(recording.path),
        device=info.device,
        command=tuple(info.command),
        torch_version=info.torch_version,
        values=info.values,
        steps=tuple(recording.steps(ranks[0])) if ranks else (),
        ranks=ranks,
    )


def evidence_of(operators: Operators) -> Evidence:
    """Return the best evidence that any operator was judged by."""
    kinds = operators.evidence()
    return next((kind for kind in get_args(Evidence) if kind in kinds), "none")


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
    found.foreign_operators |= outcome.foreign_operators
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
