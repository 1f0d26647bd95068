"""What ended a run: `Failure`, from the error that the run told, else from what it printed.

A launcher prints an error of its own after that of its processes, and a rank whose peer is gone fails, too. Both are
left out where another error is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from jumar.advise.doctor.entries.store import built_in_errors
from jumar.advise.doctor.logs.tracebacks import HEAD, Streams

LAST_LINES = 40
_WORD = re.compile(r"\w")
_ABORTED = "terminate called after throwing"
_ABORTED_LINES = 3
_EXIT_RAISED = 1
_EXIT_CODE = re.compile(r"\bexit ?code\s*:\s*(-?\d+)")


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended a run."""

    text: str
    """The traceback, else the last lines of the output."""
    signal: int = 0
    """The signal that killed a process."""

    @property
    def line(self) -> str:
        """The line that names the error, with its message; empty where nothing was said."""
        if self.signal:
            return f"killed by signal {self.signal} ({Signals(self.signal).name})"
        lines = self.text.splitlines()
        heads = [at for at, line in enumerate(lines) if HEAD in line]
        after = lines[heads[-1] + 1 :] if heads else []
        named = next((at for at, line in enumerate(after) if _WORD.match(line)), None)
        if named is None:
            said = [line.strip() for line in lines if _WORD.search(line)]
            return next((line for line in said if line.startswith("what():")), said[-1] if said else "")
        line, further = after[named].strip(), (line.strip() for line in after[named + 1 :])
        return f"{line} {next(filter(_WORD.search, further), '')}".strip() if line.endswith(":") else line


def printed(log: Path, *, killed_by: int = 0) -> Failure:
    """Return the failure that a log shows of a run that told none, and that a signal may have ended.

    An unreadable log shows nothing.
    """
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return Failure("")
    aborted = next((at for at, line in enumerate(lines) if line.startswith(_ABORTED)), None)
    if aborted is not None:
        return Failure("\n".join(lines[aborted : aborted + _ABORTED_LINES]))
    codes = [int(code) for line in lines for code in _EXIT_CODE.findall(line)]
    last = "\n".join(lines[-LAST_LINES:])
    if killed_by or (codes and _EXIT_RAISED not in codes):  # what was raised before was handled
        return Failure(last, signal=killed_by or max(0, -codes[-1]))
    errors = list(_own_errors(lines))
    return Failure("\n".join(errors[-1]) if errors else last)


def _own_errors(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of each traceback that says neither that another process failed nor that a peer is gone."""
    streams = Streams()
    for number, line in enumerate(lines):
        found = streams.feed(number, line)
        if found is not None and not is_consequence(f"{found.exception}: {found.message}"):
            yield lines[found.first_line : number + 1]


def is_consequence(line: str) -> bool:
    """Return whether a line says that another process failed."""
    matches = built_in_errors().searcher(line.encode()).search(line)
    return any(match.signature is not None and match.signature.role == "consequence" for match in matches)
