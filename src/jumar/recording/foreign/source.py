"""`RecordingLike`: the part of a recording that comparing reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jumar.recording import CallRow, RunEnd, RunInfo

if TYPE_CHECKING:
    import numpy as np


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
