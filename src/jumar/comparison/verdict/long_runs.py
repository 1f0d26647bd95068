"""Takes the histories of both runs, which hold numbers of every step, into the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jumar.base.text import counted
from jumar.comparison.model.drift import Drift, Onset
from jumar.comparison.model.results import LossPair, OperatorDiff
from jumar.comparison.walk.evidence import Evidenced
from jumar.comparison.walk.losses import first_disagreement
from jumar.recording.reader import RecordingLike

if TYPE_CHECKING:
    from jumar.recording.history.reader import History

FEWEST = 3
"""Steps of a run from which its history says more than its steps in detail."""
FROM_ROUNDING = 1e-2
"""Distance of the parameters after the first step up to which it may come from rounding alone: an adaptive optimizer
turns the noise of gradients near zero into whole updates."""


@runtime_checkable
class HasHistory(Protocol):
    """A recording that holds numbers of every step."""

    def history(self, rank: int = 0) -> History | None:
        """See `Recording.history`."""


def take_drift(found: Evidenced, ranks: tuple[int, int], offset: int, steps: tuple[int, int] | None) -> Drift | None:
    """Compare all steps of one rank of both runs, of `steps` where they are given; None where a run has no history."""
    sides = ((found.reference, ranks[0]), (found.target, ranks[1]))
    if any(not _is_long(recording, rank) for recording, rank in sides):
        return None
    histories = [recording.history(rank) for recording, rank in sides if isinstance(recording, HasHistory)]
    reference, target = histories
    if reference is None or target is None:
        return None
    from jumar.comparison.drift.find import find_drift

    found.notes.extend(
        f"{side}: {history.warning}"
        for side, history in (("reference", reference), ("target", target))
        if history.warning
    )
    drift = find_drift(reference, target, ranks[0], offset=offset, epsilon=found.coarsest, steps=steps)
    if not drift.points:
        return None
    drift = _without_consequences(found, drift)
    found.drifts.append(drift)
    return drift


def _is_long(recording: RecordingLike, rank: int) -> bool:
    if not isinstance(recording, HasHistory):
        return False
    end = recording.ends.get(rank)
    return end is None or end.num_steps >= FEWEST


def _without_consequences(found: Evidenced, drift: Drift) -> Drift:
    """Return the drift without an onset that another finding explains: a skipped update, other micro-batches."""
    skipped = min((skip.step for skip in found.skipped), default=None)
    other_batches = any(shift.kind == "micro-steps" for shift in found.correspondence.shifts)
    onset = drift.onset
    explained = onset is not None and (
        (skipped is not None and onset.step >= skipped) or (other_batches and onset.change not in {"setting"})
    )
    return replace(drift, onset=None, others=[]) if explained else drift


def losses_of_all(detailed: Sequence[tuple[int, float]], drift: Drift | None, side: int) -> list[tuple[int, float]]:
    """Return (step, loss) of the steps in detail and of those that both histories have; `side` 1 is the target."""
    if drift is None:
        return list(detailed)
    losses = {point.step: (point.reference_loss, point.target_loss)[side] for point in drift.points}
    known = {step: loss for step, loss in losses.items() if loss is not None}
    return sorted((known | dict(detailed)).items())


def judged_with(found: Evidenced, pairs: Iterable[LossPair], drift: Drift | None) -> list[LossPair]:
    """Return the pairs; those that part after a first step that agrees are not judged where rounding may do that.

    Rounding may, when the runs began within rounding of each other, no step was seen to change anything, and no
    operator differs. That is said in the notes.
    """
    judged = list(pairs)
    parted = first_disagreement(judged)
    if parted is None or drift is None or not _may_be_rounding(found, judged, parted, drift):
        return judged
    grown = f", which grew {drift.growth:.2g} times a step in the mean" if drift.growth and drift.growth > 1 else ""
    found.notes.append(
        f"rank {drift.rank}: from step {parted.step} on losses differ by more than {parted.tolerance:.0%}. That cannot "
        f"be told from rounding{grown}: no step changed a setting, the data, a generator or a rule of the optimizer"
    )
    return [replace(pair, agrees=None) if pair.step >= parted.step else pair for pair in judged]


def _may_be_rounding(found: Evidenced, pairs: Sequence[LossPair], parted: LossPair, drift: Drift) -> bool:
    first = next((pair for pair in pairs if pair.agrees is not None), None)
    began = drift.first_distance
    return (
        drift.onset is None
        and first is not None
        and first.step < parted.step
        and parted.error is not None
        and found.first is None
        and not found.leaves
        and found.random is None
        and began is not None
        and began <= FROM_ROUNDING
    )


def deciding_onset(found: Evidenced) -> tuple[Drift, Onset] | None:
    """Return the onset of a drift that lies before everything else that was found; None where there is none."""
    began = [(drift, drift.onset) for drift in found.drifts if drift.onset is not None]
    if not began:
        return None
    drift, onset = min(began, key=lambda one: one[1].step)
    others = [diff.step for diff in (found.first, found.random) if diff is not None and not _shows(diff, onset)]
    others += [found.leaves_step] if found.leaves and found.leaves_step is not None else []
    return None if any(step <= onset.step for step in others) else (drift, onset)


def _shows(diff: OperatorDiff, onset: Onset) -> bool:
    """Return whether a divergence is where a changed state of the optimizer shows: in its update of the same step, with
    settings that agree."""
    return onset.change == "state" and onset.step == diff.step and diff.kind == "optimizer" and not diff.arguments


def drift_headline(found: Evidenced) -> str:
    """Return the answer where a drift decides; empty where it does not."""
    deciding = deciding_onset(found)
    if deciding is None:
        return ""
    onset = deciding[1]
    return f"The runs drift apart from step {onset.step} on: {onset.sentence} (compared: {history_words(found)})."


def history_words(found: Evidenced) -> str:
    """Return of how many steps losses, settings and norms were compared, and how many in detail; empty without any."""
    if not found.drifts:
        return ""
    drift = min(found.drifts, key=lambda drift: len(drift.points))
    of = f"{len(drift.points):,} of {max(drift.num_steps):,} steps"
    detailed = counted(len(set(found.steps)), "step")
    return f"losses, settings and norms of {of}, {detailed} in detail"
