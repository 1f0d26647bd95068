"""Which rows are replayed: operators that have tensors and that a pattern names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from jumar.accuracy.source import RecordingLike
from jumar.errors import RecordingError, UsageError
from jumar.recording.schema import CallRow

EVERYTHING = ("*",)


class Selection:
    """Rows of a recording by step and rank. Raises RecordingError without tensors, UsageError when nothing matches."""

    def __init__(
        self, recording: RecordingLike, keys: Sequence[str] | None = None, steps: tuple[int, int] | None = None
    ) -> None:
        if not recording.has_tensors():
            raise RecordingError(
                f"{recording.path} holds no tensors to replay from. Record with --values tensors, or with --tensors-of "
                "for some operators only."
            )
        self._recording = recording
        self._patterns = tuple(keys) if keys else EVERYTHING
        first, end = steps or (0, 1 << 62)
        self._steps = [
            (step, rank) for rank in recording.ranks for step in recording.steps(rank) if first <= step < end
        ]
        self._rows = {place: self._of_step(*place) for place in self._steps}
        if not len(self):
            raise UsageError(
                f"no operator of {recording.path} {_among(steps)}matches {', '.join(self._patterns)}. Give a row key "
                "(op/forward/blocks.1.*/aten::gelu/0), an operator (aten::addmm) or a glob over these."
            )

    def __len__(self) -> int:
        return sum(len(seqs) for seqs in self._rows.values())

    def __iter__(self) -> Iterator[tuple[int, int, list[CallRow]]]:
        """Yield step, rank and the rows of it that are selected, one step in memory at a time."""
        for (step, rank), seqs in self._rows.items():
            if seqs:
                yield step, rank, [row for row in self._recording.rows(step, rank) if row.seq in seqs]

    def _of_step(self, step: int, rank: int) -> set[int]:
        rows = self._recording.rows(step, rank)
        return {row.seq for row in rows if row.kind == "op" and any(matches(row, p) for p in self._patterns)}


def matches(row: CallRow, pattern: str) -> bool:
    """Return whether a row key, operator name or module path matches a glob, with a step prefix such as `3:` or not."""
    step, colon, rest = pattern.partition(":")
    if colon and step.isdigit() and not rest.startswith(":"):
        if int(step) != row.step:
            return False
        pattern = rest
    names = (row.key, row.name, row.name.partition(".")[0])
    return any(name == pattern or fnmatchcase(name, pattern) for name in names)


def _among(steps: tuple[int, int] | None) -> str:
    return f"in steps {steps[0]}:{steps[1]} " if steps is not None else ""
