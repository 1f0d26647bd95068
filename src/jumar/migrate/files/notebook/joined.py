"""The Python of all cells as one source, so that a name imported in one cell is known in the next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jumar.migrate.edits import Replacement
from jumar.migrate.files.differences import differences

_MARK = "# jumar cell"


@dataclass(frozen=True, slots=True)
class JoinedCells:
    """Cells one below the other, each behind a comment line."""

    text: str
    starts: tuple[int, ...]
    """Where each cell's code starts in `text`."""
    codes: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, codes: Sequence[str]) -> JoinedCells:
        """Join the cells' code."""
        mark = _MARK
        while any(mark in code for code in codes):
            mark += "-"
        text, starts = "", []
        for number, code in enumerate(codes):
            text += f"{mark} {number}\n"
            starts.append(len(text))
            text += code if code.endswith("\n") else f"{code}\n"
        return cls(text, tuple(starts), tuple(codes), mark)

    def place(self, offset: int) -> tuple[int, int]:
        """Return the cell that an offset belongs to, and the offset in its code; the nearest where it is in none."""
        index = max((number for number, start in enumerate(self.starts) if start <= offset), default=0)
        return index, min(max(0, offset - self.starts[index]), len(self.codes[index]))

    def split(self, after: str) -> tuple[str, ...] | None:
        """Return what became of each cell's code in the converted source, None where the marks are gone."""
        marks = list(re.finditer(rf"^{re.escape(self.mark)} (\d+)\n", after, re.MULTILINE))
        if [match.group(1) for match in marks] != [str(number) for number in range(len(self.codes))]:
            return None
        if not marks:
            return ()
        ends = [*(follower.start() for _, follower in pairwise(marks)), len(after)]
        parts = [after[match.end() : end] for match, end in zip(marks, ends, strict=True)]
        parts[0] = after[: marks[0].start()] + parts[0]
        return tuple(
            part if code.endswith("\n") else part.removesuffix("\n")
            for part, code in zip(parts, self.codes, strict=True)
        )

    def edits(self, after: str) -> Iterator[tuple[int, tuple[Replacement, ...]]] | None:
        """Return for each cell the edits that convert its code, None where they cannot be told apart."""
        parts = self.split(after)
        if parts is None:
            return None
        return iter([(index, differences(code, parts[index])) for index, code in enumerate(self.codes)])

    def cell_edits(self, start_line: int, before: str, after: str) -> tuple[int, tuple[Replacement, ...]]:
        """Return the cell of an edit of whole lines of the joined source, and the edit as edits of its code."""
        at = _offset_of_line(self.text, start_line)
        index, _ = self.place(at)
        found = []
        for edit in differences(before, after):
            start, end = (
                min(max(0, at + each - self.starts[index]), len(self.codes[index])) for each in (edit.start, edit.end)
            )
            found.append(Replacement(start, end, edit.text))
        return index, tuple(found)


def _offset_of_line(text: str, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at
