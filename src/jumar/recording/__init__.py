"""The artefact a run leaves: a folder of rows and tensors that survives a kill."""

from __future__ import annotations

from jumar.recording.reader import Recording
from jumar.recording.schema import (
    SCHEMA_VERSION,
    CallRow,
    Kind,
    Level,
    Phase,
    RunEnd,
    RunInfo,
    StepInfo,
    TensorRow,
    Values,
    end_file,
    step_stem,
)
from jumar.recording.writer import RecordingWriter, claim_rank

__all__ = [
    "SCHEMA_VERSION",
    "CallRow",
    "Kind",
    "Level",
    "Phase",
    "Recording",
    "RecordingWriter",
    "RunEnd",
    "RunInfo",
    "StepInfo",
    "TensorRow",
    "Values",
    "claim_rank",
    "end_file",
    "step_stem",
]
