"""`SourceText`: the bytes of a source and their text. Encoding, byte-order mark and line ends stay.

Everything else in this room works on `SourceText.text` and on offsets into it; `encode` turns an
edited text back into the bytes of the file's own encoding.
"""

from __future__ import annotations

import ast
import bisect
import codecs
import io
import re
import tokenize
import warnings
from dataclasses import dataclass, field

_DECLARATION = re.compile(rb"^[ \t\f]*#.*?coding[:=]", re.MULTILINE)  # PEP 263
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse_python(source: str | bytes) -> ast.Module:
    """Return the tree of Python's own parser, which says nothing of the source's warnings here.

    Raises SyntaxError, or ValueError, RecursionError or MemoryError for a source that the parser cannot take.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse_python` raises."""


class SourceError(Exception):
    """A source cannot be read as Python; `line` and `column` (from 1) say where, when that is known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file's bytes and the text they stand for (line ends as they are, no byte-order mark)."""

    data: bytes
    text: str
    encoding: str
    mark: bytes = b""
    _line_starts: list[int] = field(default_factory=list, repr=False)

    @classmethod
    def decode(cls, data: bytes) -> SourceText:
        """Read `data` by its byte-order mark or encoding declaration, UTF-8 without either.

        Raises SourceError when the bytes are not text of that encoding, or would not come back
        unchanged from it.
        """
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        body = data[len(mark) :]
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(_first_lines(data)).readline)
        except SyntaxError as error:
            if _DECLARATION.search(_first_lines(data)):
                raise SourceError(f"its encoding is unknown: {error.msg}", 1, 1) from error
            encoding = "utf-8"  # nothing is declared, and the first lines are not UTF-8: decoding says where
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        try:
            text = body.decode(encoding)
            lossless = text.encode(encoding) == body
        except UnicodeError as error:
            raise SourceError(f"its bytes are not {encoding} text", *_byte_position(body, error)) from error
        if not lossless:
            raise SourceError(f"its bytes do not come back unchanged from {encoding}", 1, 1)
        return cls(data=data, text=text, encoding=encoding, mark=mark, _line_starts=_line_starts(text))

    @classmethod
    def of(cls, source: str | bytes) -> SourceText:
        """Take text as it is (UTF-8), bytes through `decode`."""
        if isinstance(source, bytes):
            return cls.decode(source)
        return cls(data=source.encode(), text=source, encoding="utf-8", _line_starts=_line_starts(source))

    def encode(self, text: str) -> bytes:
        """Return `text` in this file's encoding, behind its byte-order mark."""
        return self.mark + text.encode(self.encoding)

    @property
    def newline(self) -> str:
        """The file's first line end, or a line feed when it has none."""
        match = _LINE_END.search(self.text)
        return match.group() if match else "\n"

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column, both from 1, of a character offset."""
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_start(self, offset: int) -> int:
        """Return the offset at which the line of `offset` starts."""
        return self._line_starts[bisect.bisect_right(self._line_starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Return the offset just after the line of `offset`, its line end included."""
        line = bisect.bisect_right(self._line_starts, offset)
        return self._line_starts[line] if line < len(self._line_starts) else len(self.text)


def _first_lines(data: bytes) -> bytes:
    """Return the two lines a declaration may stand in, with the line end that tokenize knows."""
    return b"\n".join(re.split(rb"\r\n|\r|\n", data, maxsplit=2)[:2]) + b"\n"


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def _byte_position(body: bytes, error: UnicodeError) -> tuple[int, int]:
    start = error.start if isinstance(error, UnicodeDecodeError) else 0
    before = body[:start]
    return before.count(b"\n") + 1, start - (before.rfind(b"\n") + 1) + 1
