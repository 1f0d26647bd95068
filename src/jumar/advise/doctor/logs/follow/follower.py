"""`Follower`: the logs of a job while they grow; each new error once."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumar.advise.doctor.entries import Table
from jumar.advise.doctor.logs.diagnosis import Incident, LogDiagnosis, diagnosis_of, incidents_of
from jumar.advise.doctor.logs.engine.folders import STDIN, LogFile, find_logs
from jumar.advise.doctor.logs.engine.packed.readings import is_plain
from jumar.advise.doctor.logs.engine.sieve import Sieve
from jumar.advise.doctor.logs.follow.tails import FileTail, Lines, PipeTail, Tail
from jumar.base.errors import InputError

_QUIET_S = 0.7
"""An error is told once its log is quiet for so long: its last lines say the most …"""
_LATEST_S = 3.0
"""… but no later than this."""
_MOST_NOTES = 5
_LOOK_S = 2.0
"""How often folders are looked through for new logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """An error that was not there before."""

    incident: Incident
    is_better_told: bool = False
    """An error of the same lines was told before; this one says more."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far the reading is."""

    num_lines: int = 0
    num_bytes: int = 0
    num_files: int = 0
    last_at: float | None = None
    """When the last bytes came, by the follower's clock."""
    repeats: dict[str, int] = field(default_factory=dict)
    """How many further logs an error is in, by its message."""


@dataclass(slots=True)
class _Told:
    """What was told of one log."""

    num_hits: int = 0
    changed_at: float | None = None
    """When an error came that is not told yet."""
    lines: set[int] = field(default_factory=set)
    """Lines of errors that are told."""


class Follower:
    """Reads logs, and those that come into folders, as they grow.

    `clock` returns seconds. Raises InputError for a path that is not there.
    """

    def __init__(
        self, paths: Sequence[str | Path], table: Table, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._paths = [Path(path) for path in paths]
        self._sieve = Sieve(table)
        self._clock = clock
        self._tails: dict[Path, Tail] = {}
        self._told: dict[Lines, _Told] = {}
        self._seen: set[tuple[str, str]] = set()
        self._left_out: dict[Path, str] = {}
        self._looked_at = float("-inf")
        self.progress = Progress()
        self._check()
        self._look()

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come: all that is read are pipes that were closed."""
        return bool(self._tails) and all(tail.is_over for tail in self._tails.values())

    def poll(self) -> tuple[list[News], bool]:
        """Read what is new. Return the errors that are new, and whether anything was read."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            self._look()
        read = 0
        for tail in self._tails.values():
            read += tail.read(now)
        progress = self.progress
        if read:
            progress.last_at = now
        progress.num_bytes += read
        progress.num_lines = sum(lines.num_lines for lines in self._lines())
        progress.num_files = len(self._tails)
        return [news for lines in self._lines() for news in self._news(lines, now)], read > 0

    def finish(self) -> list[News]:
        """Take last lines without an end, and return the errors that are not told yet."""
        now = self._clock()
        for tail in self._tails.values():
            tail.lines.settle(now, patience_s=0)
        return [news for lines in self._lines() for news in self._news(lines, now, is_over=True)]

    def diagnosis(self) -> LogDiagnosis:
        """Return what all logs say so far."""
        notes = [note for tail in self._tails.values() for note in tail.notes]
        left_out = [f"{path} was not followed: {why}." for path, why in self._left_out.items()]
        notes += left_out[:_MOST_NOTES]
        if len(left_out) > _MOST_NOTES:
            notes.append(f"{len(left_out) - _MOST_NOTES} more files were not followed.")
        reports = [lines.report(is_over=True) for lines in self._lines()]
        return diagnosis_of(reports, notes)

    def _lines(self) -> list[Lines]:
        return [lines for tail in self._tails.values() for lines in (*tail.before, tail.lines)]

    def _check(self) -> None:
        for path in self._paths:
            if path != STDIN and not path.exists():
                raise InputError(f"{path} does not exist; name a log file, or a folder that logs will come into.")

    def _look(self) -> None:
        """Find logs that are not read yet."""
        self._looked_at = self._clock()
        for path, is_named in self._found():
            if path in self._tails or path in self._left_out:
                continue
            tail = self._tail(path, is_named=is_named)
            if tail is not None:
                self._tails[path] = tail

    def _found(self) -> Iterator[tuple[Path, bool]]:
        for path in self._paths:
            if path == STDIN or not path.is_dir():
                yield path, True
                continue
            try:
                files = find_logs([path]).files
            except InputError:  # no log yet
                continue
            yield from ((file.path, False) for file in files)

    def _tail(self, path: Path, *, is_named: bool) -> Tail | None:
        if path == STDIN:
            return PipeTail(Path("stdin"), self._sieve, 0)
        try:
            status = path.stat()
            if stat.S_ISFIFO(status.st_mode):
                return PipeTail(path, self._sieve, os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            if not is_named and self._is_read(path):
                self._left_out[path] = "it is what another log was before it began again"
                return None
            if not is_plain(LogFile(path=path, is_named=is_named)):
                self._left_out[path] = "it is packed, or no text"
                return None
        except OSError:  # gone meanwhile
            return None
        return FileTail(path, self._sieve)

    def _is_read(self, path: Path) -> bool:
        """Tell whether a file of a folder is one that was read under the name that it had before a rotation."""
        tails = [tail for tail in self._tails.values() if isinstance(tail, FileTail)]
        return any(tail.has_read(path) for tail in tails if path.name.startswith(tail.path.stem))

    def _news(self, lines: Lines, now: float, *, is_over: bool = False) -> Iterator[News]:
        told = self._told.setdefault(lines, _Told())
        if lines.num_hits != told.num_hits:
            told.num_hits = lines.num_hits
            told.changed_at = now if told.changed_at is None else told.changed_at
        if told.changed_at is None:
            return
        is_quiet = now - lines.fed_at >= _QUIET_S and not lines.is_inside
        if not (is_over or is_quiet or now - told.changed_at >= _LATEST_S):
            return
        told.changed_at = None
        for incident in incidents_of(lines.report(is_over=is_over)):
            yield from self._one(incident, told)

    def _one(self, incident: Incident, told: _Told) -> Iterator[News]:
        """Yield an incident where it is new, or says more than what was told of its lines."""
        places = {hit.line for hit in incident.hits}
        is_known, is_lead_known = bool(places & told.lines), incident.lead.line in told.lines
        told.lines |= places
        if is_lead_known:
            return
        message = incident.finding.message
        if (incident.finding.code, message) in self._seen:
            self.progress.repeats[message] = self.progress.repeats.get(message, 0) + 1
            return
        self._seen.add((incident.finding.code, message))
        yield News(incident=incident, is_better_told=is_known)
