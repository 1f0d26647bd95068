"""Python tracebacks in a stream of lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jumar.advise.doctor.logs.clock import PREFIX

HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)(?:, in (\S+))?')
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::\s?(.*))?$")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_INSTALLED = re.compile(r"(?:site|dist)-packages|/lib/python\d|^<frozen|^<string>$|importlib")
_LONGEST_LINES = 2000
"""A traceback that does not end within so many lines is given up (interleaved output)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traceback:
    """One traceback, or the first of a chain of them."""

    first_line: int
    last_line: int
    exception: str
    """Class name as printed, e.g. `KeyError`, `torch.OutOfMemoryError`."""
    message: str
    file: str = ""
    """Deepest frame that is not in an installed package, else the deepest of all; empty when it has no frame."""
    line: int | None = None
    function: str = ""


@dataclass(slots=True)
class _Open:
    first_line: int
    indent: int
    frames: list[tuple[str, int, str]] = field(default_factory=list)


class TracebackReader:
    """Feed it lines; it hands out each traceback when its exception line has come.

    Of a chain only the first is handed out: the others say what went wrong while it was being handled.
    """

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._chained = False

    @property
    def is_waiting(self) -> bool:
        """Whether the next line may belong to what was fed before."""
        return self._open is not None or self._chained

    def feed(self, number: int, line: str) -> Traceback | None:
        """Take line `number`; return the traceback that it ends, or None."""
        text = PREFIX.sub("", line.rstrip("\r\n"))
        if HEAD in text:
            # A chained one is read like any other (its exception line must not pass for another's), then dropped.
            self._open = _Open(number, len(text) - len(text.lstrip()))
            return None
        if self._open is None:
            self._note_chain(text)
            return None
        return self._inside(number, text)

    def _note_chain(self, text: str) -> None:
        if text.startswith(_CHAINED):
            self._chained = True
        elif text.strip():
            self._chained = False

    def _inside(self, number: int, text: str) -> Traceback | None:
        opened = self._open
        assert opened is not None
        frame = _FRAME.match(text)
        if frame:
            opened.frames.append((frame[1], int(frame[2]), frame[3] or ""))
            return None
        if not text.strip() or number - opened.first_line > _LONGEST_LINES:
            self._open = None
            return None
        if len(text) - len(text.lstrip()) > opened.indent:
            return None  # source lines and the ^^^^ under them
        self._open = None
        match = _EXCEPTION.match(text.strip())
        chained, self._chained = self._chained, False
        return None if match is None or chained else _traceback(opened, number, match)


def _traceback(opened: _Open, number: int, match: re.Match[str]) -> Traceback:
    own = [frame for frame in opened.frames if not _INSTALLED.search(frame[0])]
    file, line, function = (own or opened.frames or [("", 0, "")])[-1]
    return Traceback(
        first_line=opened.first_line,
        last_line=number,
        exception=match[1],
        message=(match[2] or "").strip(),
        file=file,
        line=line or None,
        function=function,
    )
