"""`Scan`: the errors of one log, first occurrence and count of each, in one pass with bounded memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.logs.clock import first_time, last_time, rank_in, rank_of_path
from jumar.advise.doctor.logs.engine.blocks import AROUND_LINES, Block
from jumar.advise.doctor.logs.engine.hits import Hit
from jumar.advise.doctor.logs.engine.parts import MOST_LONG, ScannedPart
from jumar.advise.doctor.logs.engine.sieve import Plan, Sieve, naughts
from jumar.advise.doctor.logs.lines.meetings import meeting_in
from jumar.advise.doctor.logs.lines.reader import Found, LineReader
from jumar.advise.doctor.logs.restarts import says_restart
from jumar.advise.doctor.logs.tracebacks import HEAD
from jumar.advise.doctor.logs.wrappings import lines_of, unwrapped

OnProgress = Callable[[int], None]
"""Called with the bytes of files read since the last call."""

TEXT_CHARACTERS = 300
"""Of a line that is kept as evidence."""
_SHOWN_LINES = 3
"""Shown before and after an error that nothing explains."""
_VERY_LONG_BYTES = 2**14
_MOST_KEYS = 4000
"""Different errors of one file that are counted."""
_END_BYTES = (2**12, 2**16)
"""A time is looked for in so much of a block's end, then in all of it."""
_WRAPPED = (b"\x1b", b"\r", b'{"', b"{ ")


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


class Scan:
    """State of reading one file, or a part of it at whose beginning no traceback is open."""

    def __init__(self, path: Path, sieve: Sieve) -> None:
        self._sieve = sieve
        self._part = ScannedPart(path=path, rank=rank_of_path(path))
        self._reader = LineReader()
        self._has_said = False
        self._heads: dict[int, tuple[datetime | None, tuple[str, ...]]] = {}
        """Of lines that open a traceback: the time there, the lines around. That it was cut off is known late."""

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
            hit = part.hits.get(found.key)
            if hit is not None and hit.line == number and number in self._heads:
                hit.time, hit.around = self._heads[number]
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
        return self._part.num_long <= MOST_LONG

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
        if HEAD in place.line and len(self._heads) < _MOST_KEYS:
            self._heads[place.number] = (place.time() or self._part.last_time, place.around())
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


def _last_time(data: bytes) -> datetime | None:
    for size in (*_END_BYTES, len(data)):
        time = last_time(lines_of(data[-size:]))
        if time is not None or size >= len(data):
            return time
    return None


def _last_line(data: bytes) -> str:
    end = data[-4 * TEXT_CHARACTERS :].rstrip()
    return end[end.rfind(b"\n") + 1 :].decode("utf-8", "replace")[:TEXT_CHARACTERS]
