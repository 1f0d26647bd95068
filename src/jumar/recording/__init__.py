"""The artefact a run leaves: a folder of rows and tensors that survives a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader
from jumar.recording.reader import Recording, RecordingLike
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

if TYPE_CHECKING:
    from jumar.recording.writer import RecordingWriter, claim_rank, is_claimed

__all__ = [
    "SCHEMA_VERSION",
    "CallRow",
    "Kind",
    "Level",
    "Phase",
    "Recording",
    "RecordingLike",
    "RecordingWriter",
    "RunEnd",
    "RunInfo",
    "StepInfo",
    "TensorRow",
    "Values",
    "claim_rank",
    "end_file",
    "is_claimed",
    "step_stem",
]

_HOME = dict.fromkeys(("RecordingWriter", "claim_rank", "is_claimed"), "jumar.recording.writer")
"""A program that only reads recordings does not load the writer."""

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
