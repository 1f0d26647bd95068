"""Executes the suspects again in float64 where both recordings hold their tensors."""

from __future__ import annotations

from jumar.base.errors import JumarError
from jumar.comparison.diagnosis.results import Diagnosis
from jumar.comparison.replay.results import Replayed
from jumar.recording import Recording
from jumar.recording.reader import RecordingLike

MOST = 12


def replayed_suspects(diagnosis: Diagnosis, reference: RecordingLike, target: RecordingLike) -> list[Replayed]:
    """Return the three numbers of the first divergence and of what it reads; empty without whole tensors.

    Imports torch. What cannot be replayed says so itself.
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
    return found[:MOST]
