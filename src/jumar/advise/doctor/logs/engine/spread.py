"""`scan_files`: many logs, or parts of large ones, read side by side by several processes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from jumar.advise.doctor.entries import Table
from jumar.advise.doctor.logs.engine.blocks import blocks
from jumar.advise.doctor.logs.engine.cuts import PART_BYTES, Part, Portion, parts_of
from jumar.advise.doctor.logs.engine.folders import STDIN, LogFile
from jumar.advise.doctor.logs.engine.hits import FileReport
from jumar.advise.doctor.logs.engine.packed.readings import Unpacking, is_plain
from jumar.advise.doctor.logs.engine.packed.streams import reason
from jumar.advise.doctor.logs.engine.parts import ScannedPart, report_of
from jumar.advise.doctor.logs.engine.scan import OnProgress, Scan
from jumar.advise.doctor.logs.engine.sieve import Sieve
from jumar.base.errors import InputError
from jumar.base.host import usable_cores
from jumar.base.process import pool

LEAST_BYTES = 2**26
"""Less is read by this process alone: starting others takes a second."""
_MOST_PROCESSES = 8

_Item = LogFile | Part
_Read = list[FileReport] | ScannedPart


def scan_files(files: Sequence[LogFile], table: Table, on_progress: OnProgress | None = None) -> list[FileReport]:
    """Return a report of each file, of an archive one of each member, in the order of `files`.

    A file that cannot be read has a note that says so. Raises InputError when none can be read.
    """
    items = [item for file in files for item in _items(file)]
    read: list[_Read | None] = [None] * len(items)
    for index, result in _results(items, table):
        read[index] = result
        if on_progress is not None:
            on_progress(_size(items[index]))
    reports: list[FileReport] = []
    parts: list[ScannedPart] = []
    for item, found in zip(items, read, strict=True):
        if parts and not (isinstance(item, Part) and item.start > 0):
            reports.append(report_of(parts))
            parts = []
        if isinstance(found, ScannedPart):
            parts.append(found)
        else:
            reports += found or []
    reports += [report_of(parts)] if parts else []
    _check_some_read(reports)
    return reports


def _items(file: LogFile) -> list[_Item]:
    """Return a file, or its parts where it is a large plain one."""
    if file.size_bytes <= 2 * PART_BYTES:
        return [file]
    try:
        return [*parts_of(file.path, file.size_bytes)] if is_plain(file) else [file]
    except OSError:  # reading it says so
        return [file]


def _size(item: _Item) -> int:
    return item.stop - item.start if isinstance(item, Part) else item.size_bytes


def _results(items: Sequence[_Item], table: Table) -> Iterator[tuple[int, _Read]]:
    jobs = min(usable_cores(), _MOST_PROCESSES, len(items))
    here = [index for index, item in enumerate(items) if isinstance(item, LogFile) and item.path == STDIN]
    if jobs < 2 or sum(map(_size, items)) < LEAST_BYTES:
        here = list(range(len(items)))
    for index in here:
        yield index, scan_item(table, items[index])
    there = sorted(set(range(len(items))) - set(here), key=lambda index: -_size(items[index]))
    if not there:
        return
    function = functools.partial(scan_item, table)
    sent = [items[index] for index in there]
    for place, result in pool.run(function, sent, [[number] for number in range(len(sent))], jobs):
        item = sent[place]
        yield there[place], _lost(item, result.reason) if isinstance(result, pool.Lost) else result


def _lost(item: _Item, why: str) -> _Read:
    return [_unread(item.path, why)]


def _unread(path: Path, why: str) -> FileReport:
    return FileReport(path=path, rank=None, is_unread=True, notes=[f"{path} cannot be read ({why})."])


@functools.lru_cache(maxsize=1)
def _sieve(table: Table) -> Sieve:
    return Sieve(table)


def scan_item(table: Table, item: _Item) -> _Read:
    """Read a file, or a part of one. What cannot be read is in the notes."""
    try:
        return _scan_part(table, item) if isinstance(item, Part) else _scan_file(table, item)
    except OSError as error:
        return [_unread(item.path, reason(error))]


def _scan_part(table: Table, part: Part) -> ScannedPart:
    scan = Scan(part.path, _sieve(table))
    with part.path.open("rb") as file:
        portion = Portion(file, part)
        for block in blocks(portion, before=portion.before, after=portion.after):
            scan.take(block)
    return scan.part()


def _scan_file(table: Table, file: LogFile) -> list[FileReport]:
    unpacking = Unpacking(file)
    reports = []
    for reading in unpacking.readings():
        scan = Scan(reading.path, _sieve(table))
        for block in blocks(reading.stream):
            scan.take(block)
        reports.append(report_of([scan.part()]))
    if not reports:
        reports.append(FileReport(path=file.path, rank=None, is_unread=True))
    reports[0].notes += unpacking.notes
    return reports


def _check_some_read(reports: Sequence[FileReport]) -> None:
    """Raise InputError where no file could be read."""
    if reports and all(report.is_unread for report in reports):
        why = " ".join(note for report in reports[:3] for note in report.notes)
        raise InputError(f"{why} Name a log file that you may read.")
