"""`Document`: a trace file as a stream of decoded events, with the fields around them.

The text is cut where one event ends and the next begins. That place cannot be known without reading all of the text, so
the cut is a guess: the last place in a block that looks like the border of two events. A wrong guess leaves brackets
open and cannot be decoded. Only then the block is read event by event, which takes ten times as long and keeps all that
can be read of a damaged file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError
from jumar.base.text.sizes import size_text
from jumar.timeline.chrome import decode, files, pieces
from jumar.timeline.model.source import OnProgress

LONGEST = 64 << 20
"""Bytes that are kept in memory at most while the end of an event, or of the fields around the events, is sought."""
BASE = re.compile(rb'"(baseTimeNanoseconds)"\s*:\s*(\d+)')
COUNTERS = re.compile(rb'"ph"\s*:\s*"C"')

Reader = Callable[[bytes], Sequence[Any]]


class Document:
    """One pass over one trace file. `head` and `lost` are complete when `events` is at its end."""

    def __init__(self, path: Path, on_progress: OnProgress | None = None) -> None:
        self.path = path
        self.head: dict[str, Any] = {}
        """Fields of the top object except the events."""
        self.lost: list[str] = []
        """Sentences about what could not be read."""
        self._blocks = files.blocks(path, self.lost, on_progress)
        self._damaged = 0
        self._is_list = False

    def events(self, fields: decode.Fields, *, exact: bool = False) -> Iterator[Sequence[Any]]:
        """Yield lists of events; `exact` reads numbers as decimals, slowly. Raises InputError for what is no trace."""
        fast = None if exact else decode.fast_events(fields)
        text, border, closed, enough = self._after_head(), None, False, 0
        for block in chain(self._blocks, (b"",)):
            text += block
            if block and len(text) < enough:
                continue
            border = border or pieces.border_of(text)
            cut = text.rfind(border) if border else -1
            events = _decoded(b"[" + text[: cut + 1] + b"]", fast, fields) if cut >= 0 else None
            if events is not None and border:
                yield events
                text = text[cut + border.index(b"{") :]
            if events is None or not block:
                found = pieces.piecewise(text, border, decode.SLOW[fields], is_last=not block)
                yield found.events
                self._damaged += found.damaged
                enough = 0 if found.rest else len(text) * 3 // 2  # looking again at each block would be quadratic
                text, closed, border = text[found.rest :], found.closed, border if cut >= 0 else None
            if closed:
                break
            if len(text) > LONGEST:
                self._damaged, text = self._damaged + len(text), b""
        self._finish(text, closed=closed)

    def _after_head(self) -> bytes:
        """Read up to the list of events; return what follows of the text read so far."""
        text = b""
        for block in self._blocks:
            text = (text + block).removeprefix(b"\xef\xbb\xbf")
            start = pieces.start_of_events(text)
            if start is not None:
                before = text[:start].strip()
                self._is_list = before == b"["
                if not self._is_list:
                    self._take_fields(before[: before.rindex(b'"traceEvents"')].rstrip(b", \t\r\n") + b"}")
                return text[start:]
            if len(text) > LONGEST:
                break
        why = "" if not self.lost else f"; {self.lost[0]}"
        raise InputError(
            f"{self.path} has no list of events in its first {size_text(len(text))}{why}: "
            "name a trace that a profiler wrote"
        )

    def _take_fields(self, text: bytes) -> None:
        try:
            fields = decode.loosely(text)
        except ValueError:
            self.lost.append(f"{len(text)} bytes around the events (settings of the profiler) are no JSON")
            fields = {name.decode(): int(value) for name, value in BASE.findall(text)}
        self.head |= fields if isinstance(fields, dict) else {}

    def _finish(self, text: bytes, *, closed: bool) -> None:
        """Read what follows the events, and say what was lost."""
        if closed:
            for block in self._blocks:
                text = (text + block)[:LONGEST]
            text = text.strip()
            if not self._is_list and not text:
                self.lost.append("the file ends right after its events: the fields that follow them are missing")
            elif not self._is_list and text != b"}":
                self._take_fields(b"{" + text.lstrip(b", \t\r\n"))
        else:
            self.lost.append(
                f"the last {len(text)} bytes hold no whole event: the file is cut there, or damaged"
                if text
                else "the file ends before its list of events does"
            )
        if self._damaged:
            self.lost.append(f"{self._damaged} bytes among the events are no JSON and were passed over")


def _decoded(text: bytes, fast: Reader | None, fields: decode.Fields) -> Sequence[Any] | None:
    """Return the events of a list; None where it is none."""
    if fields == "full" and COUNTERS.search(text):
        fast = None  # their arguments have any names
    for read in (fast, decode.SLOW[fields]):
        try:
            if read:
                return read(text)
        except (ValueError, RecursionError):
            continue
    return None
