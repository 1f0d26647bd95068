"""Finds the rows and tensors of both recordings for the calls that a comparison names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jumar.base.errors import RecordingError
from jumar.comparison.model.results import OperatorDiff
from jumar.recording import Recording
from jumar.recording.reader import RecordingLike
from jumar.recording.schema import CallRow, StepInfo, TensorRow

if TYPE_CHECKING:
    import numpy as np

STEPS_HELD = 4
"""Steps whose rows are held in memory, both recordings together."""


@dataclass(slots=True, eq=False)
class Both:
    """Two recordings, read step by step. Steps and ranks are the reference's; the target's are found from them."""

    reference: RecordingLike
    target: RecordingLike
    offset: int = 0
    """The target's step less the reference's."""
    rank_pairs: tuple[tuple[int, int], ...] = ()
    """Ranks that belong together, the reference's and the target's; empty for equal ones."""
    _rows: Callable[[bool, int, int], list[CallRow]] = field(init=False)

    def __post_init__(self) -> None:
        @lru_cache(maxsize=STEPS_HELD)
        def rows(of_target: bool, step: int, rank: int) -> list[CallRow]:
            recording = self.target if of_target else self.reference
            step, rank = self.place(step, rank, of_target=of_target)
            return recording.rows(step, rank) if step in recording.steps(rank) else []

        self._rows = rows

    def rows(self, step: int, rank: int, *, of_target: bool) -> list[CallRow]:
        """Return the rows of a step on one side; empty when it has no such step. Raises RecordingError."""
        return self._rows(of_target, step, rank)

    def parameters(self, step: int, rank: int, *, of_target: bool) -> list[CallRow]:
        """Return the `parameter` rows of a step, without reading the others where the recording allows it."""
        recording = self.target if of_target else self.reference
        if isinstance(recording, Recording):
            return recording.rows_of_kind("parameter", *self.place(step, rank, of_target=of_target))
        return [row for row in self.rows(step, rank, of_target=of_target) if row.kind == "parameter"]

    def place(self, step: int, rank: int, *, of_target: bool) -> tuple[int, int]:
        """Return the step and rank of a side that are this step and rank of the reference."""
        if not of_target:
            return step, rank
        return step + self.offset, dict(self.rank_pairs).get(rank, rank)

    def pair(self, diff: OperatorDiff) -> tuple[CallRow | None, CallRow | None]:
        """Return the rows that a comparison's operator stands for."""
        return (
            self._at(diff.step, diff.rank, diff.reference_seq, of_target=False),
            self._at(diff.step, diff.rank, diff.target_seq, of_target=True),
        )

    def _at(self, step: int, rank: int, seq: int | None, *, of_target: bool) -> CallRow | None:
        if seq is None:
            return None
        rows = self.rows(step, rank, of_target=of_target)
        if seq < len(rows) and rows[seq].seq == seq:
            return rows[seq]
        return next((row for row in rows if row.seq == seq), None)

    def tensors(self, row: CallRow | None, *, of_target: bool) -> dict[str, np.ndarray[Any, Any]]:
        """Return the whole tensors of a row; empty when they were not recorded."""
        if row is None:
            return {}
        recording = self.target if of_target else self.reference
        try:
            return recording.tensors(row) if recording.has_tensors() else {}
        except RecordingError:
            return {}

    def step_info(self, step: int, rank: int, *, of_target: bool) -> StepInfo:
        """Return what is known of a step as a whole; an empty `StepInfo` when the recording does not keep it."""
        read = getattr(self.target if of_target else self.reference, "step_info", None)
        step, rank = self.place(step, rank, of_target=of_target)
        try:
            info = read(step, rank) if read is not None else None
        except (RecordingError, OSError):
            info = None
        return info if isinstance(info, StepInfo) else StepInfo()

    def common(self) -> list[tuple[int, int]]:
        """Return (step, rank) of the steps that both have, in order."""
        ranks = [reference for reference, _ in self.rank_pairs] or sorted(
            set(self.reference.ranks) & set(self.target.ranks)
        )
        return sorted(
            (step, rank)
            for rank in ranks
            for step in self.reference.steps(rank)
            if step + self.offset in self.target.steps(dict(self.rank_pairs).get(rank, rank))
        )


def named(tensors: tuple[TensorRow, ...]) -> dict[str, TensorRow]:
    """Return tensors by name."""
    return {tensor.name: tensor for tensor in tensors}


def home(row: CallRow) -> tuple[str, str, str, str, int]:
    """Return what names a call in any step and on any rank."""
    return row.kind, row.phase, row.module_path, row.name, row.occurrence
