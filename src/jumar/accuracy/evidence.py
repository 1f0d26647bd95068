"""Everything a verdict is drawn from, gathered while two recordings are walked through."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

from jumar.accuracy.correspondence import Correspondence
from jumar.accuracy.floors import NoiseFloor
from jumar.accuracy.leaves import Leaf
from jumar.accuracy.operators import Operators
from jumar.accuracy.results import Evidence, LossPair, OperatorDiff, RunSummary, UnmatchedCall
from jumar.accuracy.settings import SettingDiff
from jumar.accuracy.skipped_updates import SkippedUpdate
from jumar.accuracy.source import RecordingLike


@dataclass(slots=True)
class Evidenced:
    """Everything a verdict is drawn from."""

    reference: RecordingLike
    target: RecordingLike
    settings: list[SettingDiff] = field(default_factory=list)
    operators: Operators = field(default_factory=Operators)
    counts: Counter[str] = field(default_factory=Counter)
    unmatched_reference: list[UnmatchedCall] = field(default_factory=list)
    unmatched_target: list[UnmatchedCall] = field(default_factory=list)
    num_unmatched: int = 0
    """Calls without a partner on either side, views and copies left out."""
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
    skipped: list[SkippedUpdate] = field(default_factory=list)
    """Updates that only one run made."""
    correspondence: Correspondence = field(default_factory=Correspondence)
    """Structure, names, steps, ranks: what is known beside the values."""


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
