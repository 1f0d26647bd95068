"""Python tracebacks in a stream of lines (`TracebackReader`), and in one of several writers (`Streams`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jumar.advise.doctor.logs.lines.prefixes import Said, peeled

HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)(?:, in (\S+))?')
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::\s?(.*))?$")
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_INSTALLED = re.compile(r"(?:site|dist)-packages|/lib/python\d|^<frozen|^<string>$|importlib")
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T -]\d\d:\d\d:\d\d(?:[.,]\d+)*(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|"
    r"\d\d:\d\d:\d\d(?:[.,]\d+)*|\d{2,4}/\d\d/\d\d|\[ *\d+\.\d+\]"
)
"""What differs between the prefixes of two lines of one writer."""
_MOST_PREFIXES = 64
_LONGEST_PREFIX = 200
"""What is longer is no prefix: a progress bar, or a message that ends in a traceback."""
LONGEST_LINES = 2000
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
    is_expected: bool = False
    """Its head stood in another stream: it counts once a frame has come."""


class TracebackReader:
    """Feed it lines; it hands out each traceback when its exception line has come.

    Of a chain only the first is handed out: the others say what went wrong while it was being handled.
    """

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._chained = False
        self._last_line = 0
        self.lost: list[int] = []
        """First lines of tracebacks that were cut off: no exception came."""

    @property
    def is_waiting(self) -> bool:
        """Whether the next line may belong to what was fed before."""
        return self._open is not None or self._chained

    def feed(self, number: int, line: str) -> Traceback | None:
        """Take line `number`; return the traceback that it ends, or None."""
        text = line.rstrip("\r\n")
        if HEAD in text:
            # A chained one is read like any other (its exception line must not pass for another's), then dropped.
            self._open = _Open(number, len(text) - len(text.lstrip()))
            return None
        if self._open is None:
            self._note_chain(text)
            return None
        return self._inside(number, text)

    def expire(self, number: int) -> None:
        """Give up what is still open at line `number` when its writer has been silent, or going on, for too long."""
        if self._open is not None and number - self._open.first_line > LONGEST_LINES:
            if not (self._open.is_expected and not self._open.frames):
                self.lost.append(self._open.first_line)
            self._open = None
        if self._chained and number - self._last_line > LONGEST_LINES:
            self._chained = False

    def expect(self, number: int) -> None:
        """Take the next lines as a traceback whose head is line `number` of another stream, if they are frames."""
        if self._open is None:
            self._open = _Open(number, 0, is_expected=True)

    def unfinished(self) -> list[int]:
        """Return the first lines of tracebacks that did not come to an exception."""
        waits = self._open is not None and not (self._open.is_expected and not self._open.frames)
        return [*self.lost, *([self._open.first_line] if self._open is not None and waits else [])]

    def _note_chain(self, text: str) -> None:
        if text.startswith(CHAINED):
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
        if opened.is_expected and not opened.frames:
            self._open = None
            return None
        if not text.strip() or number - opened.first_line > LONGEST_LINES:
            self._open = None
            self.lost.append(opened.first_line)
            return None
        if len(text) - len(text.lstrip()) > opened.indent:
            return None  # source lines and the ^^^^ under them
        self._open = None
        match = _EXCEPTION.match(text.strip())
        chained, self._chained = self._chained, False
        if match is None:
            self.lost.append(opened.first_line)
        return None if match is None or chained else _traceback(opened, number, match)


class Streams:
    """The tracebacks of all writers into one file, told apart by what stands before their lines.

    Of each line what `peeled` knows as a prefix is off already. What then stands before a traceback's head is taken
    for a prefix, too, as long as that traceback is open: of every line, or of the first one only.
    """

    def __init__(self) -> None:
        self._readers: dict[str, TracebackReader] = {"": TracebackReader()}
        self._prefixes: dict[str, re.Pattern[str]] = {}
        self._ended: set[int] = set()
        self.is_inside = False
        """Whether the line that was fed last belongs to a traceback."""

    @property
    def is_waiting(self) -> bool:
        """Whether the next line may belong to what was fed before."""
        return any(reader.is_waiting for reader in self._readers.values())

    def feed(self, number: int, line: str, said: Said | None = None) -> Traceback | None:
        """Take line `number` (`said`: the same without its prefixes); return the traceback that it ends, or None."""
        said = said or peeled(line)
        start = said.text.find(HEAD)
        name = self._learn(said.text[:start], said.writer) if start > 0 else ""
        writer, text = (name, said.text[start:]) if name else self._split(said)
        reader = self._reader(writer, opens=HEAD in text)
        if reader is None:
            self.is_inside = False
            return None
        traceback = reader.feed(number, text)
        self.is_inside = reader.is_waiting
        if name:
            self._readers.setdefault(said.writer, TracebackReader()).expect(number)  # the frames may have no prefix
        if traceback is not None:
            self._ended.add(traceback.first_line)
        return traceback

    def expire(self, number: int) -> None:
        """Give up tracebacks that began too many lines before line `number`: it is a clean place in any case."""
        for reader in self._readers.values():
            if reader.is_waiting:
                reader.expire(number)

    def unfinished(self) -> list[int]:
        """Return the lines of heads after which no exception came."""
        lines = {line for reader in self._readers.values() for line in reader.unfinished()}
        return sorted(lines - self._ended)

    def _reader(self, writer: str, *, opens: bool) -> TracebackReader | None:
        """Return the writer's reader; None where it has no traceback open and opens none."""
        if opens:
            return self._readers.setdefault(writer, TracebackReader())
        return self._readers.get(writer)

    def _learn(self, prefix: str, writer: str) -> str:
        """Return the name of the writer with this prefix; empty where it is no prefix or there are too many."""
        if not prefix.strip() or len(prefix) > _LONGEST_PREFIX:
            return ""
        name = f"{writer} {_TIME.sub('<time>', prefix)}"
        if name not in self._prefixes and len(self._prefixes) < _MOST_PREFIXES:
            said = prefix.rstrip()
            parts = [re.escape(part) for part in _TIME.split(said)]
            self._prefixes[name] = re.compile(f"(?:{_TIME.pattern})".join(parts) + f"(?:{prefix[len(said) :]}|$)")
        return name if name in self._prefixes else ""

    def _split(self, said: Said) -> tuple[str, str]:
        """Return the writer of a line, and the line without the prefix that was learned."""
        for name, form in self._prefixes.items():
            if (
                name.startswith(f"{said.writer} ")
                and self._readers[name].is_waiting
                and (match := form.match(said.text))
            ):
                return name, said.text[match.end() :]
        return said.writer, said.text


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
