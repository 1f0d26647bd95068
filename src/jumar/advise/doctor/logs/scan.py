"""`scan_file`: the errors of one log, first occurrence and count of each, in one pass with bounded memory."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

from jumar.advise.doctor.logs.clock import PREFIX, first_time, last_time, rank_in, rank_of_path
from jumar.advise.doctor.logs.signatures import Match, Role, Searcher, Signature, Table
from jumar.advise.doctor.logs.tracebacks import HEAD, Traceback, TracebackReader
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
        """The signature's severity, else error."""
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
    """A line and the block it is in."""

    lines: list[str]
    index: int
    number: int

    @property
    def line(self) -> str:
        return self.lines[self.index]

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
        self._readers: dict[int | None, TracebackReader] = {}
        """Ranks that write into one file interleave their tracebacks."""

    def take(self, block: Block) -> None:
        """Search a block, and note the times in it."""
        report, data = self._report, block.data
        report.size_bytes += len(data)
        report.num_lines = block.first_line + data.count(b"\n") - data.endswith(b"\n")
        if report.first_time is None:
            report.first_time = first_time(_head(data))
        searcher = self._table.searcher(data)
        waiting = any(reader.is_waiting for reader in self._readers.values())
        if searcher or waiting or any(mark in data for mark in _UNEXPLAINED):
            lines = _lines(data)
            for index in range(len(lines)):
                self._take_line(_Place(lines=lines, index=index, number=block.first_line + index), searcher)
        report.last_time = last_time(_tail(data)) or report.last_time

    def finish(self) -> FileReport:
        """Return the report. An error above the first time in the file gets that time, its upper bound."""
        for hit in self._hits.values():
            hit.time = hit.time or self._report.first_time
        self._report.hits = sorted(self._hits.values(), key=lambda hit: hit.line)
        return self._report

    def _take_line(self, place: _Place, searcher: Searcher) -> None:
        line = place.line
        matches = list(searcher.search(PREFIX.sub("", line)))
        hits = [
            self._add((match.signature.name if match.signature else "unlisted", match.code), place, match)
            for match in matches
        ]
        reader = self._readers.setdefault(rank_in(line) if PREFIX.match(line) else None, TracebackReader())
        traceback = reader.feed(place.number, line)
        if traceback is not None:
            self._add_traceback(traceback, place, hits)
        elif not matches and (found := _PLOG.match(line)):
            self._add(("plog", found[1]), place, module=found[1])

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


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").removesuffix("\n").split("\n")


def _head(data: bytes) -> list[str]:
    return _lines(data[: _NEAR_LINES * _LINE_BYTES])[:_NEAR_LINES]


def _tail(data: bytes) -> list[str]:
    return _lines(data[-_NEAR_LINES * _LINE_BYTES :])[-_NEAR_LINES:]


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
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


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
