"""`scan_file`: the errors of one log, first occurrence and count of each, in one pass with bounded memory."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

from jumar.advise.doctor.entries import Match, Role, Searcher, Signature, Table
from jumar.advise.doctor.logs.clock import PREFIX, first_time, last_time, rank_in, rank_of_path
from jumar.advise.doctor.logs.tracebacks import HEAD, Streams, Traceback
from jumar.advise.doctor.logs.words import may_name_error, names_error
from jumar.advise.doctor.logs.wrappings import as_utf_8, lines_of, unwrapped
from jumar.base.errors import InputError
from jumar.base.findings import Severity

OnProgress = Callable[[int], None]
"""Called with the bytes read since the last call."""

BLOCK_BYTES = 2**20
LONGEST_LINE_BYTES = 4 * 2**20
"""A longer line (a progress bar without line ends, a dumped tensor) is cut into pieces of this size."""
TEXT_CHARACTERS = 300
"""Of a line that is kept as evidence."""
_LINE_BYTES = 200
"""Usual length of a line, to cut a block's ends without decoding all of it."""
_NEAR_LINES = 400
"""How far to look around a line for a time."""
_PLOG = re.compile(r"^\[(?:ERROR|CRITICAL)\]\s?([A-Z][A-Z0-9_]*)\(\d+")
_MOST_LINES = 20
"""Different lines of one file that name an error and that nothing else explains."""
_NUMBER = re.compile(r"\d+")
_BELOW_LINES = 15
"""torch_npu prints the time of an error under its message."""
_UNEXPLAINED = (HEAD.encode(), b"[ERROR]", b"[CRITICAL]")
"""What makes a block worth reading line by line, apart from the table."""


@dataclass(slots=True, kw_only=True)
class Hit:
    """The first occurrence of one error in one file, and how many lines of the file hold it."""

    path: Path
    line: int
    text: str
    signature: Signature | None = None
    code: str = ""
    module: str = ""
    """Module of a plog line that nothing else explains (`GE`, `RUNTIME`, `HCCL`)."""
    traceback: Traceback | None = None
    time: datetime | None = None
    rank: int | None = None
    count: int = 1
    is_word_only: bool = False
    """The line names an error; neither the table nor a traceback or the vendor's form says that it is one."""

    @property
    def role(self) -> Role:
        """The signature's role; an error without a signature is a symptom."""
        return "symptom" if self.signature is None else self.signature.role

    @property
    def rank_of_telling(self) -> int:
        """The lowest number is the most telling. A code below an exception belongs to the exception's message."""
        if self.signature is None:
            return 3 if self.traceback is not None else 4
        if self.role == "consequence":
            return 2 if self.code else 3
        return {"cause": 0, "symptom": 1, "wrapper": 5, "harmless": 6}[self.role]

    @property
    def severity(self) -> Severity:
        """The signature's severity, else error; of a line that only names one a warning."""
        if self.is_word_only:
            return Severity.WARNING
        return Severity.ERROR if self.signature is None else self.signature.severity


@dataclass(slots=True, kw_only=True)
class FileReport:
    """What one file holds."""

    path: Path
    rank: int | None
    num_lines: int = 0
    size_bytes: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    hits: list[Hit] = field(default_factory=list)


def scan_file(path: Path, table: Table, on_progress: OnProgress | None = None) -> FileReport:
    """Read the log once. Raises InputError when it cannot be read."""
    scan = _Scan(path, table)
    for block in blocks_of(path):
        scan.take(block)
        if on_progress is not None:
            on_progress(len(block.data))
    return scan.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What a line says, and the block it is in."""

    line: str
    lines: list[str]
    """Lines of the block as they stand in the file."""
    index: int
    number: int

    def time(self) -> datetime | None:
        """Return the time on the line, else one just below (of the same message), else the nearest above."""
        below = self.lines[self.index : self.index + _BELOW_LINES]
        above = self.lines[max(0, self.index - _NEAR_LINES) : self.index]
        return first_time(below) or last_time(above)


class _Scan:
    """State of reading one file."""

    def __init__(self, path: Path, table: Table) -> None:
        self._table = table
        self._report = FileReport(path=path, rank=rank_of_path(path))
        self._hits: dict[tuple[str, str], Hit] = {}
        self._streams = Streams()

    def take(self, block: Block) -> None:
        """Search a block, and note the times in it."""
        report, data = self._report, block.data
        report.size_bytes += len(data)
        report.num_lines = block.first_line + data.count(b"\n") - data.endswith(b"\n")
        if report.first_time is None:
            report.first_time = first_time(_head(data))
        self._search(block)
        report.last_time = last_time(_tail(data)) or report.last_time

    def _search(self, block: Block) -> None:
        said, indices = unwrapped(block.data)
        searcher = self._table.searcher(said)
        marked = self._streams.is_waiting or any(mark in said for mark in _UNEXPLAINED)
        if not (searcher or marked or may_name_error(said.decode("latin-1").lower())):
            return
        pieces = lines_of(said)
        lines = pieces if indices is None else lines_of(block.data)
        for index, piece in zip(indices or range(len(pieces)), pieces, strict=True):
            place = _Place(line=piece, lines=lines, index=index, number=block.first_line + index)
            self._take_line(place, searcher)

    def finish(self) -> FileReport:
        """Return the report. An error above the first time in the file gets that time, its upper bound."""
        for number in self._streams.unfinished():
            self._add_words(_Place(line=HEAD, lines=[HEAD], index=0, number=number))
        for hit in self._hits.values():
            hit.time = hit.time or self._report.first_time
        self._report.hits = sorted(self._hits.values(), key=lambda hit: hit.line)
        return self._report

    def _take_line(self, place: _Place, searcher: Searcher) -> None:
        line = place.line
        if not (searcher or self._streams.is_waiting or HEAD in line or line.startswith("[")):
            if names_error(line):
                self._add_words(place)
            return
        matches = list(searcher.search(PREFIX.sub("", line)))
        hits = [
            self._add((match.signature.name if match.signature else "unlisted", match.code), place, match)
            for match in matches
        ]
        traceback = self._streams.feed(place.number, line)
        if traceback is not None:
            self._add_traceback(traceback, place, hits)
        elif not matches and (found := _PLOG.match(line)):
            self._add(("plog", found[1]), place, module=found[1])
        elif not (matches or self._streams.is_inside) and names_error(line):
            self._add_words(place)

    def _add_words(self, place: _Place) -> None:
        """Keep a line that names an error, one of those that differ in numbers only."""
        key = ("words", _NUMBER.sub("0", place.line.strip())[:TEXT_CHARACTERS])
        if key in self._hits or sum(kind == "words" for kind, _ in self._hits) < _MOST_LINES:
            self._add(key, place).is_word_only = True

    def _add_traceback(self, traceback: Traceback, place: _Place, hits: list[Hit]) -> None:
        """Give the traceback to the errors that its last line names, or make it an error of its own."""
        if not hits:
            key = ("traceback", f"{traceback.exception}: {traceback.message[:80]}")
            hits = [self._add(key, place)]
        for hit in hits:
            hit.traceback = hit.traceback or traceback

    def _add(self, key: tuple[str, str], place: _Place, match: Match | None = None, module: str = "") -> Hit:
        known = self._hits.get(key)
        if known is not None:
            known.count += 1
            return known
        rank = rank_in(place.line)
        hit = self._hits[key] = Hit(
            path=self._report.path,
            line=place.number,
            text=place.line.strip()[:TEXT_CHARACTERS],
            signature=match.signature if match else None,
            code=match.code if match else "",
            module=module,
            time=place.time() or self._report.last_time,
            rank=self._report.rank if rank is None else rank,
        )
        return hit


def _head(data: bytes) -> list[str]:
    return lines_of(data[: _NEAR_LINES * _LINE_BYTES])[:_NEAR_LINES]


def _tail(data: bytes) -> list[str]:
    return lines_of(data[-_NEAR_LINES * _LINE_BYTES :])[-_NEAR_LINES:]


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of a file, as bytes."""

    data: bytes
    first_line: int
    """Number of its first line, from 1, as editors count."""


def blocks_of(path: Path) -> Iterator[Block]:
    """Yield the file's lines in blocks of about 1 MiB; `.gz` files are unpacked on the way.

    Raises InputError when the file cannot be read to its end.
    """
    try:
        with _opened(path) as file:
            yield from _blocks(file)
    except (OSError, EOFError) as error:  # gzip raises EOFError for a cut file
        raise InputError(f"{path} cannot be read ({_reason(error)}); name a log file that you may read.") from error


def _opened(path: Path) -> BinaryIO:
    return as_utf_8(cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb"))


def _blocks(file: BinaryIO) -> Iterator[Block]:
    line, rest = 1, b""
    while data := file.read(BLOCK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) < LONGEST_LINE_BYTES:
            rest = data
            continue
        whole, rest = (data[:end], data[end:]) if end else (data, b"")
        yield Block(whole, line)
        line += whole.count(b"\n")
    if rest:
        yield Block(rest, line)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
