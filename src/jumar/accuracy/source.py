"""What comparing needs of a recording: `jumar.recording.Recording` has it, and so may others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jumar.accuracy.interchange.recognise import open_foreign
from jumar.errors import RecordingError
from jumar.recording import CallRow, Recording, RunEnd, RunInfo, TensorRow

if TYPE_CHECKING:
    import numpy as np

    from jumar.accuracy.arrays import Stored
    from jumar.accuracy.measure import Loader


class RecordingLike(Protocol):
    """The part of `Recording` that comparing reads; see there for the meaning."""

    path: Path
    info: RunInfo
    warnings: list[str]

    @property
    def ends(self) -> Mapping[int, RunEnd]:
        """How each rank ended."""

    @property
    def ranks(self) -> list[int]:
        """Ranks that left something."""

    def steps(self, rank: int = 0) -> list[int]:
        """Complete steps in order."""

    def rows(self, step: int, rank: int = 0) -> list[CallRow]:
        """Rows of a step in the order in which the calls finished."""

    def losses(self, rank: int = 0) -> list[tuple[int, float]]:
        """Step and loss."""

    def has_tensors(self) -> bool:
        """Whether whole tensors were recorded."""

    def tensors(self, row: CallRow) -> dict[str, np.ndarray]:
        """Whole tensors of a row by name; RecordingError when they were not recorded."""


def opened(recording: str | Path | RecordingLike) -> RecordingLike:
    """Return the recording, opened when a path was given; so are dumps of other tools. Raises RecordingError."""
    if not isinstance(recording, str | Path):
        return recording
    return open_foreign(Path(recording)) or Recording.open(recording)


class TensorReader:
    """Finds the tensors of one row at a time; those of a recording stay in their file until they are compared."""

    def __init__(self, recording: RecordingLike) -> None:
        self._recording = recording
        self._key: tuple[int, int, str] | None = None
        self._tensors: Mapping[str, np.ndarray | Stored] = {}

    def of(self, row: CallRow) -> Loader:
        """Return what loads one tensor of `row`, or None for one that was not recorded."""

        def load(tensor: TensorRow) -> np.ndarray | Stored | None:
            key = (row.step, row.rank, row.key)
            if self._key != key:
                self._key = key
                try:
                    self._tensors = self._of_row(row)
                except RecordingError:
                    self._tensors = {}
            return self._tensors.get(tensor.name)

        return load

    def _of_row(self, row: CallRow) -> Mapping[str, np.ndarray | Stored]:
        if isinstance(self._recording, Recording):
            return self._recording.stored(row)
        return self._recording.tensors(row)
