"""Which recorded operator a person means."""

from __future__ import annotations

from pathlib import Path

from jumar.accuracy.replay.engine import Engine, replay
from jumar.accuracy.replay.findings import ranked
from jumar.accuracy.replay.results import Replayed
from jumar.accuracy.replay.selection import Selection
from jumar.accuracy.source import RecordingLike, opened
from jumar.errors import UsageError
from jumar.recording import CallRow

FIRST = "first"
MAX_TRIED = 500
"""Operators that a glob may match and that are replayed to find the worst."""


def pick(recording: RecordingLike, operator: str, against: str | Path | RecordingLike | None) -> tuple[CallRow, str]:
    """Return the row that `operator` names and a sentence on how it was chosen (empty when it names one row).

    `operator` is a row key, an operator's name, a module path and an operator (`blocks.3.fc1 aten::addmm`), a glob
    over these, each with a step prefix if wanted, or `first`: the first divergence from the recording `against`.
    Of several rows the one whose own error is greatest is taken. Raises UsageError when nothing is meant,
    RecordingError when a recording cannot be read.
    """
    if operator == FIRST:
        return _first(recording, against)
    patterns = _patterns(operator)
    rows = [row for _, _, found in Selection(recording, patterns) for row in found]
    if len(rows) == 1:
        return rows[0], ""
    tried = rows[:MAX_TRIED]
    engine = Engine(recording)
    worst = ranked([engine.row(row) for row in tried])[0]
    among = f"{len(rows):,}" if len(rows) <= MAX_TRIED else f"the first {MAX_TRIED:,} of {len(rows):,}"
    return worst.row, f"of {among} calls that match {operator}, the one with the greatest error of its own"


def _patterns(operator: str) -> list[str]:
    """Return the globs over row keys that `operator` stands for."""
    module, _, name = operator.strip().rpartition(" ")
    if not module:
        return [operator]
    step, colon, path = module.strip().rpartition(":")
    prefix = f"{step}:" if colon else ""
    return [f"{prefix}op/*/{path}/{name}{end}/*" for end in ("", ".*")]


def _first(recording: RecordingLike, against: str | Path | RecordingLike | None) -> tuple[CallRow, str]:
    if against is None:
        return _first_fault(recording)
    from jumar.accuracy.compare import compare

    reference = opened(against)
    diff = compare(reference, recording).first_divergence
    if diff is None or diff.target_seq is None or diff.kind != "op":
        raise UsageError(
            f"the comparison of {reference.path} with {recording.path} names no operator of {recording.path} as the "
            "first divergence. Name an operator by its row key, as jumar replay lists them."
        )
    rows = recording.rows(diff.step, diff.rank)
    row = next(row for row in rows if row.seq == diff.target_seq)
    return row, f"the first divergence from {reference.path}"


def _first_fault(recording: RecordingLike) -> tuple[CallRow, str]:
    faults: list[Replayed] = [row for row in replay(recording) if row.verdict == "own fault"]
    if not faults:
        raise UsageError(
            f"no operator of {recording.path} has an error of its own, so there is no first one. Name an operator, or "
            "give the reference's recording with --against."
        )
    return faults[0].row, f"the first of {len(faults):,} operators with an error of their own"
