"""`JoinedCells`: the Python of all cells as one source, so that an import in one cell is known in the next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jumar.convert.files.draft.differences import differences
from jumar.convert.model.edits import Replacement
from jumar.convert.model.text import UNPARSABLE, parse_python

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
        at = offset_of_line(self.text, start_line)
        index, _ = self.place(at)
        found = []
        size = len(self.codes[index])
        for edit in differences(before, after):
            start, end = (min(max(0, at + each - self.starts[index]), size) for each in (edit.start, edit.end))
            text = edit.text
            if at + edit.start - self.starts[index] > size and text.endswith("\n"):  # behind the cell's last line
                text = "\n" + text[:-1]
            found.append(Replacement(start, end, text))
        return index, tuple(found)


def offset_of_line(text: str, line: int) -> int:
    """Return where a line (from 1) starts, the end of the text for one behind the last."""
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


_CELL_MAGIC = re.compile(r"\s*%%([\w!]+)[ \t]*([^\n]*)(?:\n|\Z)")
_LINE_MAGIC = re.compile(
    r"^[ \t]*(?:[A-Za-z_][\w.,\[\] \t]*=[ \t]*)?(?P<magic>(?:!|%[A-Za-z])(?:[^\n\\]|\\\n|\\.)*|\?+[\w.*]+)"
    r"|^(?P<helped>[ \t]*[\w.*%]+\?\??)[ \t]*$",
    re.MULTILINE,
)
SHELL_MAGICS = frozenset({"bash", "sh", "script", "system", "!", "sx"})
PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "python", "python3", "memit", "pypy", "px"})


_CODE_MAGICS = frozenset({"timeit", "time", "prun", "memit"})
_CODE_MAGIC = re.compile(r"%(?:timeit|time|prun|memit|mprun|lprun|debug)\b[ \t]*")
"""Magics whose argument is Python, behind options."""
_OPTIONS = re.compile(r"(?:-(?:[fmTDs][ \t]+[\w./]+|[A-Za-z]+[ \t]*\d*)[ \t]+)*")
_SHELL_MAGIC = re.compile(r"!+|%(?:sx|system)\b|%(?=pip|conda|mamba)|%run\b|%(?:set_)?env\b")


@dataclass(slots=True)
class ReadCell:
    """A cell taken apart: Python with the magics masked, and the spans that are for the shell."""

    python: str | None = None
    """Of the cell's length; None where the cell holds no Python that can be read."""
    commands: list[tuple[int, int]] = field(default_factory=list)
    """Spans of shell commands."""
    variables: list[tuple[int, int]] = field(default_factory=list)
    """Spans of `%env`'s argument."""
    unread: list[tuple[int, int]] = field(default_factory=list)
    """Spans of magics that name CUDA and are read neither as Python nor for the shell."""
    error: str = ""
    """Why the Python cannot be read."""


def read_cell(text: str) -> ReadCell:
    """Take a cell apart. Never raises."""
    magic = _CELL_MAGIC.match(text)
    if magic is None:
        return _python_cell(text, 0)
    name = magic.group(1)
    if name in SHELL_MAGICS or (name == "writefile" and re.search(r"\.(ba)?sh\s*$", magic.group(2))):
        return ReadCell(commands=[(magic.end(), len(text))])
    if name in PYTHON_MAGICS:
        return _python_cell(text, magic.end(), magic.span(2) if name in _CODE_MAGICS else None)
    return ReadCell(error=f"%%{name} is not read" if re.search(r"cuda|nccl", text, re.IGNORECASE) else "")


def _python_cell(text: str, start: int, setup: tuple[int, int] | None = None) -> ReadCell:
    """Take a cell apart that holds Python from `start` on, and in the line of its magic the code `setup`, if any."""
    body = masked(text, 0, start) if start else text
    if setup is not None:
        body = _with_code(text, body, 0, *setup)
    error = syntax_error(body)
    if error is None:
        return ReadCell(python=body)
    found = ReadCell()
    for match in _LINE_MAGIC.finditer(text, start):
        span = match.span("magic") if match["magic"] is not None else match.span("helped")
        indent = len(match.group()) - len(match.group().lstrip())
        low = span[0] if match["magic"] is not None else span[0] + indent
        body = masked(body, low, span[1])
        magic = _CODE_MAGIC.match(text, low, span[1])
        if magic is not None:
            body = _with_code(text, body, low, magic.end(), span[1])
        elif _names_cuda(text[low : span[1]]) and not _is_for_shell(text, low, span[1]):
            found.unread.append((low, span[1]))
        _note(text, low, span[1], found)
    error = syntax_error(body)
    if error is not None:
        return ReadCell(commands=found.commands, variables=found.variables, unread=found.unread, error=error)
    found.python = body
    return found


def _with_code(text: str, body: str, low: int, start: int, end: int) -> str:
    """Return `body` with the code `text[start:end]` of the magic at `low`, behind a statement of the same length."""
    options = _OPTIONS.match(text, start, end)
    start = options.end() if options is not None else start
    head = f"_=0{' ' * (start - low - 4)};"
    if start >= end or len(head) != start - low or "\n" in text[low:start]:
        return body
    changed = body[:low] + head + text[start:end] + body[end:]
    return changed if syntax_error(head + text[start:end]) is None else body


def _names_cuda(text: str) -> bool:
    return re.search(r"cuda|nccl", text, re.IGNORECASE) is not None


def _is_for_shell(text: str, start: int, end: int) -> bool:
    return _SHELL_MAGIC.match(text, start, end) is not None


def _note(text: str, start: int, end: int, found: ReadCell) -> None:
    """Note what the shell reads of the magic in `text[start:end]`."""
    magic = _SHELL_MAGIC.match(text, start, end)
    if magic is None:
        return
    (found.variables if magic.group().endswith("env") else found.commands).append((magic.end(), end))


def masked(text: str, start: int, end: int) -> str:
    """Return `text` with a name in place of the characters from `start` to `end`; lines and lengths stay."""
    first, newline, rest = text[start:end].partition("\n")
    blank = re.sub(r"[^\n]", " ", rest)
    return text[:start] + "_" * len(first) + newline + blank + text[end:]


def syntax_error(code: str) -> str | None:
    """Return what Python has against `code`, None where it reads it."""
    try:
        parse_python(code)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except UNPARSABLE as error:
        return str(error) or type(error).__name__
    return None
