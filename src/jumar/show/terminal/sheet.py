"""Lines for a terminal: wrapped with a hanging indent there, and left whole in a pipe or a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from jumar.show.terminal.tell import pieces
from jumar.show.views.prose import spans

CODE_STYLE = "bold"
QUIET_STYLE = "dim"

_LEAST_WIDTH = 20
"""Columns that a wrapped text keeps however narrow the terminal is."""

# Names and messages come from files that anybody may have written: an escape sequence or a change of
# the text's direction in them must not reach the terminal.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


class Sheet:
    """Collects lines for one console; `flush` prints them."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.lines: list[Text] = []

    @property
    def wraps(self) -> bool:
        """Whether it is a terminal: in a pipe no line is wrapped or cut."""
        return self.console.is_terminal

    def plain(self, text: str, style: str = "") -> Text:
        """Return `text` as it is, without what the console cannot show."""
        return Text(self._safe(text), style=style)

    def prose(self, text: str, style: str = "") -> Text:
        """Return `text` with its `backquotes` turned into bold; in a pipe they stay."""
        if not self.wraps:
            return self.plain(text, style)
        parts = [(self._safe(span.text), CODE_STYLE if span.code else "") for span in spans(text)]
        return Text.assemble(*parts, style=style)

    def hang(self, lead: Text, body: Text) -> list[Text]:
        """Return `lead` and `body` on one line, with what does not fit in the width set under `body`."""
        indent = cell_len(lead.plain)
        if not self.wraps:
            return [Text.assemble(lead, body)]
        width = max(self.console.width - indent, _LEAST_WIDTH)
        first, *others = body.divide(_breaks(body.plain, width))
        for line in (first, *others):
            line.rstrip()
        return [Text.assemble(lead, first)] + [Text.assemble(" " * indent, line) for line in others]

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[Text]:
        """Return `rows` in columns under `titles` (none when all are empty); in a terminal those columns that fit."""
        has_titles = any(titles)
        lines = [[self._safe(cell) for cell in row] for row in ([titles] if has_titles else []) + list(rows)]
        widths = [max(cell_len(row[index]) for row in lines) for index in range(len(titles))]
        num_columns = self._num_fitting(widths)
        texts = [
            "  " + "  ".join(_padded(row[i], widths[i], numbers[i]) for i in range(num_columns)).rstrip()
            for row in lines
        ]
        return [Text(text, style=QUIET_STYLE if has_titles and index == 0 else "") for index, text in enumerate(texts)]

    def add(self, lines: Iterable[Text]) -> None:
        """Append `lines`."""
        self.lines += lines

    def gap(self) -> None:
        """Append an empty line, unless the sheet is empty."""
        if self.lines:
            self.lines.append(Text())

    def flush(self) -> None:
        """Print the lines as they are."""
        for line in self.lines:
            self.console.print(line, soft_wrap=True, highlight=False)
        self.lines = []

    def _num_fitting(self, widths: Sequence[int]) -> int:
        if not self.wraps:
            return len(widths)
        fitting = 0
        while fitting < len(widths) and sum(widths[: fitting + 1]) + 2 * (fitting + 1) <= self.console.width:
            fitting += 1
        return max(1, fitting)

    def _safe(self, text: str) -> str:
        encoding = self.console.encoding
        return _CONTROLS.sub(" ", text).encode(encoding, "backslashreplace").decode(encoding)


def _breaks(text: str, width: int) -> list[int]:
    """Return where to begin a new line. A word wider than `width` stays whole: a path is one piece to copy."""
    breaks, column, at = [], 0, len(text) - len(text.lstrip())
    for piece in pieces(text):
        if column and column + cell_len(piece.rstrip()) > width:
            breaks.append(at)
            column = 0
        column += cell_len(piece)
        at += len(piece)
    return breaks


def _padded(text: str, width: int, is_number: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if is_number else text + space
