"""The second pass: which calls to record again and the commands for it, and the replay of calls that have tensors."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import JumarError
from jumar.comparison.diagnosis.results import Diagnosis, Suspect
from jumar.comparison.diagnosis.rows import Both
from jumar.comparison.model.kinds import QUERIES, VIEWS
from jumar.comparison.model.results import OperatorDiff, RunSummary
from jumar.operators import canonical_name
from jumar.recording import Recording
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    from jumar.comparison.replay.results import Replayed

NEIGHBOURS = 2
"""Operators before and after the first divergence."""
PRODUCERS = 8
MOST_REPLAYED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPass:
    """How to record the suspects' whole tensors on both sides."""

    step: int
    reference: str
    """Shell command for the reference."""
    target: str


def suspects_of(both: Both, diff: OperatorDiff) -> tuple[Suspect, ...]:
    """Return the calls whose tensors would tell more, of both sides, without repetition."""
    found: dict[tuple[int, int, str], Suspect] = {}
    for row, of_target in zip(both.pair(diff), (False, True), strict=True):
        if row is None:
            continue
        rows = both.rows(diff.step, diff.rank, of_target=of_target)
        for role, one in _around(row, rows):
            suspect = Suspect(step=one.step, rank=one.rank, key=one.key, role=role)  # type: ignore[arg-type]
            found.setdefault((suspect.step, suspect.rank, suspect.key), suspect)
    return tuple(found.values())


def _around(row: CallRow, rows: Sequence[CallRow]) -> Iterable[tuple[str, CallRow]]:
    yield "first divergence", row
    place = next((index for index, one in enumerate(rows) if one.seq == row.seq), None)
    if place is None:
        return
    for producer in _producers(row, rows[:place]):
        yield "producer", producer
    before = [one for one in rows[:place] if _computes(one)][-NEIGHBOURS:]
    after = [one for one in rows[place + 1 :] if _computes(one)][:NEIGHBOURS]
    for one in (*before, *after):
        yield "neighbour", one


def _computes(row: CallRow) -> bool:
    """Return whether a row is an operator that computes new values: neither a view nor a query."""
    return row.kind == "op" and canonical_name(row.name) not in VIEWS | QUERIES


def _producers(row: CallRow, before: Sequence[CallRow]) -> Iterable[CallRow]:
    """Yield the last calls that wrote what `row` reads, by storage."""
    wanted = {tensor.storage for tensor in row.inputs if tensor.storage}
    num = 0
    for one in reversed(before):
        written = {tensor.storage for tensor in one.outputs if tensor.storage}
        if _computes(one) and written & wanted:
            wanted -= written
            num += 1
            yield one
        if not wanted or num >= PRODUCERS:
            return


def write_suspects(path: Path, suspects: Iterable[Suspect]) -> None:
    """Write the file that `jumar record --tensors-of` reads: a JSON list of row keys with their step.

    An existing file of suspects is replaced: it is made anew with every comparison. Raises OSError.
    """
    keys = [f"{suspect.step}:{suspect.key}" for suspect in suspects]
    path.write_text(json.dumps(keys, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def second_pass(
    reference: RunSummary, target: RunSummary, suspects: Sequence[Suspect], file: str = ""
) -> SecondPass | None:
    """Return the commands, with `file` or else the first suspect's key; None where the scripts are not known."""
    if not suspects or not reference.command or not target.command:
        return None
    firsts = [suspect for suspect in suspects if suspect.role == "first divergence"]
    of_reference, of_target = firsts[0], firsts[-1]
    return SecondPass(
        step=of_reference.step,
        reference=_command(reference, of_reference, file),
        target=_command(target, of_target, file),
    )


def _command(run: RunSummary, suspect: Suspect, file: str) -> str:
    step = suspect.step
    device = next((name for name in ("npu", "cuda", "cpu") if run.device.startswith(name)), "")
    parts = ["jumar", "record", "-o", f"{run.path.rstrip('/')}-tensors"]
    if device:
        parts += ["--device", device]
    parts += ["--steps", f"{step}:{step + 1}", "--tensors-of", file or f"{step}:{suspect.key}", *run.command]
    return shlex.join(parts)


def replayed_suspects(diagnosis: Diagnosis, reference: RecordingLike, target: RecordingLike) -> list[Replayed]:
    """Return the three numbers of the first divergence and of what it reads; empty without whole tensors.

    Imports torch. A call that cannot be replayed gives its reason in the result.
    """
    recordings = [one for one in (reference, target) if isinstance(one, Recording) and one.has_tensors()]
    keys = [s.key for s in diagnosis.suspects if s.role != "neighbour" and s.key.startswith("op/")]
    if len(recordings) < 2 or not keys:
        return []
    from jumar.comparison.replay import replay

    step = diagnosis.suspects[0].step
    try:
        found = replay(recordings[1], list(dict.fromkeys(keys)), reference=recordings[0], steps=(step, step + 1))
    except JumarError:
        return []
    return found[:MOST_REPLAYED]
