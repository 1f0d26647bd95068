"""`Scan`: the errors of one log, first occurrence and count of each, in one pass with bounded memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.logs.clock import first_time, last_time, rank_in, rank_of_path
from jumar.advise.doctor.logs.engine.blocks import AROUND_LINES, Block
from jumar.advise.doctor.logs.engine.hits import FileReport, Hit
from jumar.advise.doctor.logs.engine.sieve import Plan, Sieve, naughts
from jumar.advise.doctor.logs.lines.meetings import meeting_in
from jumar.advise.doctor.logs.lines.reader import Found, LineReader
from jumar.advise.doctor.logs.restarts import says_restart
from jumar.advise.doctor.logs.tracebacks import HEAD, Traceback
from jumar.advise.doctor.logs.wrappings import lines_of, unwrapped

__all__ = ["FileReport", "Hit", "OnProgress", "Place", "Scan", "ScannedPart", "report_of"]

OnProgress = Callable[[int], None]
"""Called with the bytes of files read since the last call."""

TEXT_CHARACTERS = 300
"""Of a line that is kept as evidence."""
_SHOWN_LINES = 3
"""Shown before and after an error that nothing explains."""
_MOST_LINES = 20
"""Different lines of one file that name an error and that nothing else explains."""
_VERY_LONG_BYTES = 2**14
_MOST_LONG = 64
"""So many very long lines of a part are read where they may name an error."""
_MOST_KEYS = 4000
"""Different errors of one file that are counted."""
_END_BYTES = (2**12, 2**16)
"""A time is looked for in so much of a block's end, then in all of it."""
_WRAPPED = (b"\x1b", b"\r", b'{"', b"{ ")
_Key = tuple[str, str]


class _Context:
    """The lines of a block, with those around it; decoded when the first of them is asked for."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.num_before = block.before.count(b"\n")

    @functools.cached_property
    def lines(self) -> list[str]:
        return lines_of(self._block.before + self._block.data + self._block.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a line says, and where it stands."""

    line: str
    number: int
    index: int
    """Of its line in `context.lines`."""
    context: _Context

    def time(self) -> datetime | None:
        """Return the time on the line, else one just below (of the same message), else the nearest above."""
        lines = self.context.lines
        return first_time(lines[self.index : self.index + AROUND_LINES]) or last_time(lines[: self.index])

    def around(self) -> tuple[str, ...]:
        """Return the line with a few before and after it."""
        lines = self.context.lines[max(0, self.index - _SHOWN_LINES) : self.index + _SHOWN_LINES + 1]
        return tuple(line.rstrip()[:TEXT_CHARACTERS] for line in lines if line.strip())


@dataclass(slots=True, kw_only=True)
class ScannedPart:
    """What a part of a file holds; `report_of` puts parts together."""

    path: Path
    rank: int | None
    num_lines: int = 0
    """Line ends."""
    has_open_end: bool = False
    """The last line has no end."""
    size_bytes: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    last_line: str = ""
    num_long: int = 0
    """Very long lines, or pieces of them, that were worth reading."""
    meetings: dict[str, datetime] = field(default_factory=dict)
    hits: dict[_Key, Hit] = field(default_factory=dict)
    """Their lines are counted from the part's beginning; without a time where no line of the part tells one before."""
    restarts: list[int] = field(default_factory=list)
    """Lines in which a launcher says that it starts the run again, counted likewise."""


class Scan:
    """State of reading one file, or a part of it at whose beginning no traceback is open."""

    def __init__(self, path: Path, sieve: Sieve) -> None:
        self._sieve = sieve
        self._part = ScannedPart(path=path, rank=rank_of_path(path))
        self._reader = LineReader()
        self._has_said = False

    @property
    def num_hits(self) -> int:
        """How many different errors there are so far."""
        return len(self._part.hits)

    def take(self, block: Block) -> None:
        """Search a block, and note the times in it."""
        part, data = self._part, block.data
        part.size_bytes += len(data)
        part.num_lines += data.count(b"\n")
        part.has_open_end = not data.endswith(b"\n")
        self._search(block)
        time = _last_time(data)
        part.last_time = time or part.last_time
        if part.first_time is None and time is not None:
            part.first_time = first_time(lines_of(data))
        part.last_line = _last_line(data) or part.last_line

    @property
    def is_waiting(self) -> bool:
        """Whether the next line may belong to a traceback."""
        return self._reader.is_waiting

    def part(self, *, is_over: bool = True) -> ScannedPart:
        """Return what was found so far; where the log is over, a traceback that is cut off counts."""
        part = replace(self._part, hits={key: replace(hit) for key, hit in self._part.hits.items()})
        kept, self._part = self._part, part
        for number, found in self._reader.unfinished() if is_over else ():
            context = _Context(Block(HEAD.encode(), number))
            self._add(found, Place(line=HEAD, number=number, index=0, context=context))
        self._part = kept
        return part

    def _search(self, block: Block) -> None:
        found = self._sieve.find(block.data)
        if not (found or self._reader.is_waiting):
            return
        raw, context = block.data.split(b"\n"), _Context(block)
        end = len(raw) - (raw[-1] == b"")
        ahead = iter(found)
        at, plan = next(ahead, (end, None))
        index = 0
        while True:
            if not self._reader.is_waiting:
                index = max(index, at)
            if index >= end:
                return
            taken = plan if index == at else None
            self._take_raw(raw[index], index, taken, block, context)
            if index == at:
                at, plan = next(ahead, (end, None))
            index += 1

    def _take_raw(self, raw: bytes, index: int, plan: Plan | None, block: Block, context: _Context) -> None:
        """Take a line as it stands in the file."""
        number = block.first_line + index
        self._reader.expire(number)
        if plan is not None and len(raw) > _VERY_LONG_BYTES and not self._may_read_long():
            return
        key = b""
        if plan is not None and plan.is_words_only and not self._reader.is_waiting:
            key = naughts(raw)
            if plan.is_silent(key):
                return
        self._has_said = False
        for piece, piece_plan in self._pieces(raw, plan):
            place = Place(line=piece, number=number, index=context.num_before + index, context=context)
            self._take_line(place, piece_plan)
        if key and plan is not None and not (self._has_said or self._reader.is_waiting):
            plan.silence(key)

    def _may_read_long(self) -> bool:
        """Count a long line that is worth reading; false after too many of them, which take long."""
        self._part.num_long += 1
        return self._part.num_long <= _MOST_LONG

    def _pieces(self, raw: bytes, plan: Plan | None) -> Iterable[tuple[str, Plan | None]]:
        """Return the lines that the program printed in this line, each with what it can hold."""
        raw = raw.rstrip(b"\r")
        if not any(mark in raw for mark in _WRAPPED):
            return [(raw.decode("utf-8", "replace"), plan)]
        said, indices = unwrapped(raw)
        pieces = said.decode("utf-8", "replace").split("\n")
        if indices is None:
            return [(pieces[0], plan)]
        return [(piece, self._sieve.plan(piece) if plan is not None else None) for piece in pieces]

    def _take_line(self, place: Place, plan: Plan | None) -> None:
        """Take a line that the program printed; `plan` is None where it can only belong to a traceback."""
        searcher, words = (None, False) if plan is None else (plan.searcher, plan.words)
        for found in self._reader.read(place.number, place.line, searcher, words=words):
            self._add(found, place)
        if plan is not None and (meeting := meeting_in(place.line)) is not None and (time := place.time()) is not None:
            self._part.meetings[meeting] = time
        if words and says_restart(place.line):
            self._part.restarts.append(place.number)
            self._has_said = True

    def _add(self, found: Found, place: Place) -> None:
        """Count an error; of a file with too many different ones the further ones are left out."""
        self._has_said = True
        known = self._part.hits.get(found.key)
        if known is not None:
            known.count += 1
            known.traceback = known.traceback or found.traceback
            if found.said.rank is not None:
                known.ranks.add(found.said.rank)
        elif len(self._part.hits) < _MOST_KEYS:
            self._part.hits[found.key] = self._hit(found, place)

    def _hit(self, found: Found, place: Place) -> Hit:
        rank = rank_in(place.line) if found.said.rank is None else found.said.rank
        rank = self._part.rank if rank is None else rank
        signature = found.match.signature if found.match else None
        return Hit(
            path=self._part.path,
            line=place.number,
            text=found.said.line.strip()[:TEXT_CHARACTERS],
            signature=signature,
            code=found.match.code if found.match else "",
            module=found.module,
            traceback=found.traceback,
            judgement=found.judgement,
            writer=found.said.writer,
            around=() if signature else place.around(),
            time=place.time() or self._part.last_time,
            rank=rank,
            ranks=set() if rank is None else {rank},
        )


def report_of(parts: Sequence[ScannedPart]) -> FileReport:
    """Return the report of a file from its parts, in their order.

    An error without a time gets the last one above it in the file, else the first one of the file, its upper bound.
    """
    report = FileReport(path=parts[0].path, rank=parts[0].rank)
    hits: dict[_Key, Hit] = {}
    for part in parts:
        for key, hit in part.hits.items():
            if key in hits:
                _count(hits[key], hit, report.num_lines)
            else:
                hits[key] = _moved(hit, report.num_lines, report.last_time)
        report.restarts += [line + report.num_lines for line in part.restarts]
        report.meetings |= part.meetings
        report.num_lines += part.num_lines
        report.size_bytes += part.size_bytes
        report.first_time = report.first_time or part.first_time
        report.last_time = part.last_time or report.last_time
        report.last_line = part.last_line or report.last_line
    report.num_lines += parts[-1].has_open_end
    unread = sum(max(0, part.num_long - _MOST_LONG) for part in parts)
    if unread:
        report.notes.append(
            f"{unread} pieces of very long lines in {report.path} were not read, though they may name errors."
        )
    for hit in hits.values():
        hit.time = hit.time or report.first_time
    report.hits = sorted(_few(hits), key=lambda hit: hit.line)
    return report


def _count(known: Hit, hit: Hit, lines_before: int) -> None:
    known.count += hit.count
    known.ranks |= hit.ranks
    known.traceback = known.traceback or _traceback_moved(hit.traceback, lines_before)


def _moved(hit: Hit, lines_before: int, time: datetime | None) -> Hit:
    traceback = _traceback_moved(hit.traceback, lines_before)
    return replace(hit, line=hit.line + lines_before, time=hit.time or time, traceback=traceback)


def _traceback_moved(traceback: Traceback | None, lines: int) -> Traceback | None:
    if traceback is None or lines == 0:
        return traceback
    return replace(traceback, first_line=traceback.first_line + lines, last_line=traceback.last_line + lines)


def _few(hits: dict[_Key, Hit]) -> list[Hit]:
    """Return the errors; of lines that only name one, and of tracebacks, the first ones."""
    kept = []
    left = {"words": _MOST_LINES, "traceback": 5 * _MOST_LINES}
    for (kind, _), hit in sorted(hits.items(), key=lambda item: item[1].line):
        if left.get(kind) == 0:
            continue
        if kind in left:
            left[kind] -= 1
        kept.append(hit)
    return kept


def _last_time(data: bytes) -> datetime | None:
    for size in (*_END_BYTES, len(data)):
        time = last_time(lines_of(data[-size:]))
        if time is not None or size >= len(data):
            return time
    return None


def _last_line(data: bytes) -> str:
    end = data[-4 * TEXT_CHARACTERS :].rstrip()
    return end[end.rfind(b"\n") + 1 :].decode("utf-8", "replace")[:TEXT_CHARACTERS]
