"""`says_restart`, `restart_notes`: runs that a launcher started again after they had failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jumar.advise.doctor.logs.engine.hits import FileReport

_RESTART = re.compile(
    r"\bwill restart worker group\b|\brestarting worker group\b|\brestart_count=[1-9]|\bback-off restarting\b|"
    r"\brestart counter is at [1-9]|\b(?:starting|started|begin(?:ning)?) (?:attempt|retry|restart) #?[1-9]|"
    r"\bresubmitting (?:the )?job\b|\brestarting (?:the )?(?:job|training|container|pod|run)\b|\bjob restarted\b",
    re.IGNORECASE,
)
RESTART_MARKS = (
    "restart worker group", "restarting", "restart_count=", "restart counter is", "starting attempt", "started attempt",
    "beginning "
    "attempt", "begin attempt", "starting retry", "started retry", "starting restart", "resubmitting", "job restarted",
)  # fmt: skip
"""Every line that says so holds one in lower case."""
_ATTEMPT = re.compile(r"attempt[_-]([1-9]\d*)")


def says_restart(line: str) -> bool:
    """Tell whether a launcher says that it starts the run again."""
    lower = line.lower()
    return any(mark in lower for mark in RESTART_MARKS) and _RESTART.search(line) is not None


def restart_notes(files: Sequence[FileReport]) -> list[str]:
    """Return a sentence where the run was started again: its first error is then that of the first attempt."""
    told = next((report for report in files if report.restarts), None)
    if told is not None:
        where = f"{told.path}:{told.restarts[0]}"
        return [f"The run was started again ({where}): the first error is that of the first attempt."]
    attempts = {match[1] for report in files for part in report.path.parts if (match := _ATTEMPT.fullmatch(part))}
    if attempts:
        return [
            "The launcher made several attempts (attempt_0 and more): the first error is that of the first attempt."
        ]
    return []
