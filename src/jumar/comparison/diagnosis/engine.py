"""Runs the decision flow over a comparison and its recordings: `diagnose`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jumar.base.errors import JumarError, RecordingError
from jumar.base.findings import Finding, Severity
from jumar.comparison.align.steps import find_offset
from jumar.comparison.diagnosis.curves import curves
from jumar.comparison.diagnosis.flow import Case, walk
from jumar.comparison.diagnosis.results import Diagnosis, Suspect, Suspicion
from jumar.comparison.diagnosis.rows import Both
from jumar.comparison.model.options import CompareOptions
from jumar.comparison.model.results import Comparison, OperatorDiff
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import RecordingLike


def diagnose(
    comparison: Comparison,
    reference: str | Path | RecordingLike,
    target: str | Path | RecordingLike,
    options: CompareOptions | None = None,
) -> Diagnosis:
    """Return the way through the decision flow for a comparison of these two recordings.

    `options` are those of the comparison. Rows are read again step by step. `notes` names what cannot be read, and no
    claim is made about it.
    """
    both = _both(opened(reference), opened(target), options or CompareOptions())
    notes: list[str] = []
    points = []
    try:
        points = curves(both, notes)
    except RecordingError as error:
        notes.append(f"gradients were not read: {error}")
    suspicions, suspects = _suspected(both, comparison.first_divergence)
    origin = origin_of(both, comparison, notes)
    path = tuple(walk(Case(comparison, points, origin)))
    last = path[-1]
    diagnosis = Diagnosis(
        cause=last.cause or "none",
        conclusion=last.answer,
        path=path,
        suspicions=suspicions,
        suspects=suspects,
        curves=tuple(points),
        notes=tuple(notes),
    )
    findings = tuple(_findings(diagnosis))
    if origin is not None and origin.code not in {finding.code for finding in comparison.findings}:
        findings = (origin, *findings)
    return replace(diagnosis, findings=findings)


def _suspected(both: Both, first: OperatorDiff | None) -> tuple[tuple[Suspicion, ...], tuple[Suspect, ...]]:
    """Return the hypotheses about the first divergence, and the calls whose tensors would tell more."""
    if first is None:
        return (), ()
    # These are imported late: the signatures are many, and most runs agree.
    from jumar.comparison.diagnosis.causes import suspicions
    from jumar.comparison.diagnosis.second_pass import suspects_of

    return suspicions(both, first), suspects_of(both, first)


def _both(reference: RecordingLike, target: RecordingLike, options: CompareOptions) -> Both:
    """Return both recordings with the steps and ranks that the comparison took to belong together."""
    offset = options.offset
    if offset is None:
        rank = min(set(reference.ranks) & set(target.ranks), default=0)
        offset = 0 if options.rank_pairs else find_offset(reference.losses(rank), target.losses(rank))
    return Both(reference, target, offset, options.rank_pairs)


def origin_of(both: Both, comparison: Comparison, notes: list[str]) -> Finding | None:
    """Return the finding of the first operator whose finite inputs give NaN or Inf; None where there is none."""
    first = comparison.first_divergence
    at_first = first is not None and any(tensor.nonfinite_differs for tensor in first.outputs)
    in_loss = any(pair.target is not None and not math.isfinite(pair.target) for pair in comparison.losses)
    if not at_first and not in_loss:
        return None
    from jumar.comparison.overflow import find_overflow

    try:
        report = find_overflow(both.target)
    except JumarError as error:
        notes.append(f"the origin of NaN or Inf was not searched: {error}")
        return None
    found = [finding for finding in report.findings if finding.severity >= Severity.WARNING]
    return found[0] if found else None


def _findings(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield the findings of a diagnosis. The rules are imported where it found something."""
    if diagnosis.cause != "none":
        from jumar.comparison.diagnosis.rules import diagnosis_path

        yield from diagnosis_path.find(diagnosis)
    if diagnosis.suspicions:
        from jumar.comparison.diagnosis.rules import hypothesis_seen

        yield from hypothesis_seen.find(diagnosis)
