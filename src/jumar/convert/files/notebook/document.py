"""Reads a notebook's code cells, with the offset in the file of every character of their sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.convert.model.edits import Replacement

_SPACE = re.compile(r"[ \t\r\n]*")
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
_DECODER = json.JSONDecoder()


class NotebookError(Exception):
    """The text is no notebook; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One string of a cell's source: the span between its quotes in the file."""

    start: int
    end: int


@dataclass(slots=True)
class Cell:
    """One code cell: its source as text, and where each character stands in the file."""

    number: int
    """Counted from 1, all cells of the notebook."""
    text: str
    spans: list[tuple[int, int]]
    pieces: list[Piece]
    separator: str
    """What stands between two strings of the source (`",` white space `"`), empty where it is one string."""
    ascii_only: bool

    def replacement(self, edit: Replacement) -> Replacement:
        """Return an edit of the cell's text as an edit of the file."""
        start = self.spans[edit.start][0] if edit.start < len(self.spans) else self.pieces[-1].end
        end = self.spans[edit.end - 1][1] if edit.end > edit.start else start
        at_end = any(piece.end == end for piece in self.pieces)
        return Replacement(start, end, self._encoded(edit.text, at_end=at_end))

    def _encoded(self, text: str, *, at_end: bool) -> str:
        lines = [json.dumps(line, ensure_ascii=self.ascii_only)[1:-1] for line in text.split("\n")]
        if not self.separator:
            return "\\n".join(lines)
        if at_end and len(lines) > 1 and not lines[-1]:
            return f"\\n{self.separator}".join(lines[:-1]) + "\\n"
        return f"\\n{self.separator}".join(lines)

    def file_offset(self, offset: int) -> int:
        """Return where in the file a character of the cell stands."""
        return self.spans[offset][0] if offset < len(self.spans) else self.pieces[-1].end


@dataclass(slots=True)
class Notebook:
    """What of a notebook is converted."""

    language: str = "python"
    cells: list[Cell] = field(default_factory=list)


def read_notebook(text: str) -> Notebook:
    """Read the code cells of a notebook of format 4.

    Raises NotebookError where the text is no JSON, or JSON of another form.
    """
    try:
        return _Reader(text).read()
    except (ValueError, IndexError, RecursionError) as error:
        raise NotebookError("it is not a JSON document") from error


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.notebook = Notebook()
        self.ascii_only = text.isascii()

    def skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match is not None else at

    def read(self) -> Notebook:
        at = self.skip(0)
        if self.text[at : at + 1] != "{":
            raise NotebookError("it is not a JSON object")
        seen_cells = False
        for key, value_at in self.members(at):
            if key == "cells":
                seen_cells = True
                self.after = self.cells(value_at)
            elif key == "metadata":
                metadata, self.after = _DECODER.raw_decode(self.text, value_at)
                self.notebook.language = _language(metadata)
            else:
                _, self.after = _DECODER.raw_decode(self.text, value_at)
        if not seen_cells:
            raise NotebookError("it has no cells (notebook format 4 is needed)")
        if self.skip(self.after) != len(self.text):
            raise NotebookError("something follows the document")
        return self.notebook

    after = 0
    """Where the value that was read last ends."""

    def members(self, at: int) -> Iterator[tuple[str, int]]:
        """Yield key and value offset of each member of the object at `at`; `after` is set by who reads the value."""
        at = self.skip(at + 1)
        if self.text[at] == "}":
            self.after = at + 1
            return
        while True:
            if self.text[at] != '"':
                raise ValueError("a key is missing")
            key, at = _DECODER.raw_decode(self.text, at)
            at = self.skip(at)
            if self.text[at] != ":":
                raise ValueError("a colon is missing")
            yield key, self.skip(at + 1)
            following = self._following("}")
            if following is None:
                return
            at = following

    def _following(self, closing: str) -> int | None:
        """Return where the next item begins, None behind the last, whose bracket `after` then follows."""
        at = self.skip(self.after)
        if self.text[at] == closing:
            self.after = at + 1
            return None
        if self.text[at] != ",":
            raise ValueError("a comma is missing")
        return self.skip(at + 1)

    def elements(self, at: int) -> Iterator[int]:
        """Yield the offset of each element of the list at `at`; `after` is set by who reads the element."""
        if self.text[at] != "[":
            raise ValueError("a list is missing")
        at = self.skip(at + 1)
        if self.text[at] == "]":
            self.after = at + 1
            return
        while True:
            yield at
            following = self._following("]")
            if following is None:
                return
            at = following

    def cells(self, at: int) -> int:
        for number, cell_at in enumerate(self.elements(at), 1):
            self.cell(cell_at, number)
        return self.after

    def cell(self, at: int, number: int) -> None:
        if self.text[at] != "{":
            raise ValueError("a cell is no object")
        kind, separator = "", ""
        pieces: list[Piece] = []
        for key, value_at in self.members(at):
            if key == "source":
                pieces, separator = self.source(value_at)
            else:
                value, self.after = _DECODER.raw_decode(self.text, value_at)
                kind = value if key == "cell_type" and isinstance(value, str) else kind
        if kind == "code" and pieces:
            self.notebook.cells.append(self.made(number, pieces, separator))

    def source(self, at: int) -> tuple[list[Piece], str]:
        if self.text[at] == '"':
            return [self.string(at)], ""
        pieces = [self.string(element) for element in self.elements(at)]
        if len(pieces) > 1:
            return pieces, self.text[pieces[0].end : pieces[1].start]
        return pieces, '",' + self.text[at + 1 : pieces[0].start] if pieces else ""

    def string(self, at: int) -> Piece:
        if self.text[at] != '"':
            raise ValueError("a string is missing")
        _, self.after = _DECODER.raw_decode(self.text, at)
        return Piece(at + 1, self.after - 1)

    def made(self, number: int, pieces: list[Piece], separator: str) -> Cell:
        chars: list[str] = []
        spans: list[tuple[int, int]] = []
        for piece in pieces:
            for match in _CHARACTER.finditer(self.text, piece.start, piece.end):
                found = match.group()
                chars.append(json.loads(f'"{found}"') if found[0] == "\\" else found)
                spans.append(match.span())
        return Cell(number, "".join(chars), spans, pieces, separator, self.ascii_only)


def _language(metadata: object) -> str:
    """Return the language that a notebook's metadata names, Python where they name none."""
    if isinstance(metadata, dict):
        for group, key in (("kernelspec", "language"), ("language_info", "name")):
            found = metadata.get(group)
            if isinstance(found, dict) and isinstance(found.get(key), str):
                return str(found[key]).lower()
    return "python"
