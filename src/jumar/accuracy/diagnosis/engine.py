"""Runs the decision flow over a comparison and its recordings, and gathers what is suspected where it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jumar.accuracy.diagnosis.causes import suspicions
from jumar.accuracy.diagnosis.curves import curves
from jumar.accuracy.diagnosis.flow import Case, walk
from jumar.accuracy.diagnosis.origin import origin_of
from jumar.accuracy.diagnosis.results import Diagnosis
from jumar.accuracy.diagnosis.rows import Both
from jumar.accuracy.diagnosis.second_pass import suspects_of
from jumar.accuracy.options import CompareOptions
from jumar.accuracy.results import Comparison
from jumar.accuracy.rules import RULES
from jumar.accuracy.rules.diagnosis_path import find as find_path
from jumar.accuracy.rules.hypothesis_seen import find as find_hypotheses
from jumar.accuracy.source import RecordingLike, opened
from jumar.accuracy.steps import find_offset
from jumar.errors import RecordingError


def diagnose(
    comparison: Comparison,
    reference: str | Path | RecordingLike,
    target: str | Path | RecordingLike,
    options: CompareOptions | None = None,
) -> Diagnosis:
    """Return the way through the decision flow for a comparison of these two recordings.

    `options` are those of the comparison. Rows are read again step by step; what cannot be read is said in `notes`,
    and nothing is claimed of it.
    """
    both = _both(opened(reference), opened(target), options or CompareOptions())
    notes: list[str] = []
    points = []
    try:
        points = curves(both, notes)
    except RecordingError as error:
        notes.append(f"gradients were not read: {error}")
    names = {rule.code: rule.name for rule in RULES}
    first = comparison.first_divergence
    origin = origin_of(both, comparison, notes)
    path = tuple(walk(Case(comparison, points, names, origin)))
    last = path[-1]
    found = suspicions(both, first) if first is not None else ()
    diagnosis = Diagnosis(
        cause=last.cause or "none",
        conclusion=last.answer,
        path=path,
        suspicions=found,
        suspects=suspects_of(both, first) if first is not None else (),
        curves=tuple(points),
        notes=tuple(notes),
    )
    findings = (*find_path(diagnosis), *find_hypotheses(diagnosis))
    if origin is not None and origin.code not in {finding.code for finding in comparison.findings}:
        findings = (origin, *findings)
    return replace(diagnosis, findings=findings)


def _both(reference: RecordingLike, target: RecordingLike, options: CompareOptions) -> Both:
    """Return both recordings with the steps and ranks that the comparison took to belong together."""
    offset = options.offset
    if offset is None:
        rank = min(set(reference.ranks) & set(target.ranks), default=0)
        offset = 0 if options.rank_pairs else find_offset(reference.losses(rank), target.losses(rank))
    return Both(reference, target, offset, options.rank_pairs)
