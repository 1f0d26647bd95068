"""`end_of`: how a process ended, as a launcher, a shell or a container tells it, and what that usually means."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CODE = re.compile(
    r"\b(?:exit(?:s|ed|ing)?(?:[ _]?(?:code|status))?|exitcode|return(?:ed)?[ _]?(?:code|status)|rc|"
    r"code=exited, status)\b"
    r"['\"]?\s*(?:with\s*|of\s*)?(?:exit |return |error )?(?:code|status)?\s*[:=]?\s*\(?(-?\d{1,3})\b",
    re.IGNORECASE,
)
_SIGNAL = re.compile(r"\bSIG([A-Z]{3,5})\b|\bsignal:? \(?(\d{1,2})\b|\bstatus=(\d{1,2})/([A-Z]+)\b")
_NUMBERS = {
    "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "SEGV": 11,
    "TERM": 15,
}  # fmt: skip
_WORDS = {
    "oomkilled": 9, "oom_kill": 9, "oom-kill": 9, "killed": 9, "segmentation fault": 11, "bus error": 7,
    "illegal instruction": 4, "aborted": 6, "terminated": 15, "floating point exception": 8,
}  # fmt: skip
_WORD = re.compile(
    rf"(?<![\w-])({'|'.join(_WORDS)})(?:\s*$|\s*\(|\s{{2,}}\S|\s+by\b|\W+(?:core|exit|signal)|[,.;:\"'!])",
    re.IGNORECASE,
)
"""What says that a process ended so; not `died or was killed while it worked`."""
_BEYOND_SIGNALS = 128


@dataclass(frozen=True, slots=True)
class End:
    """What the end of a process means."""

    cause: str
    action: str


_KILLED = End(
    "The process was ended by SIGKILL. That is usually the kernel, because the host or the container had no memory "
    "left, "
    "else a person or a scheduler.",
    "Look for `Out of memory` in `dmesg -T` of that host, and for the container's memory limit; then use less host "
    "memory "
    "(fewer DataLoader workers, a smaller prefetch) or raise the limit.",
)
_OF_SIGNAL = {
    1: End("The terminal that started the process was closed.", "Start it with `nohup`, in `tmux`, or as a job."),
    2: End("The process was interrupted: Ctrl-C, or a launcher that ended its group.", "Look for an earlier error."),
    4: End("A library uses an instruction that this processor does not have.", "Install wheels for this one."),
    6: End("A library ended the process by abort().", "Read the lines above it: an assertion or `what():` says why."),
    7: End(
        "Memory that was mapped is not there: usually /dev/shm of the container is full.",
        "Give the container more shared memory (`--shm-size`), or use fewer DataLoader workers.",
    ),
    8: End("A whole number was divided by zero in native code.", "Run with `python -X faulthandler` to see where."),
    9: _KILLED,
    11: End(
        "The process crashed in native code: often libraries of versions that do not fit each other.",
        "Run with `python -X faulthandler` to see where; run `jumar doctor` to check torch, torch_npu and CANN as a "
        "set.",
    ),
    15: End(
        "The process was asked to end (SIGTERM): by a launcher because another rank failed, by a scheduler, or by a "
        "person.",
        "Look for an earlier error in the logs of the other ranks, and for a time limit of the job.",
    ),
}  # fmt: skip
_OF_CODE = {
    2: End("The command did not understand its arguments.", "Read its usage line above."),
    126: End(
        "The command is there, and cannot be executed.",
        "Check the file's permission and that it is built for this processor.",
    ),
    127: End("The command was not found.", "Check its spelling, PATH and the environment that the job activates."),
}


def end_of(line: str) -> End | None:
    """Return what the end of a process in this line means; None where it tells none that means something by itself."""
    signal = _signal_in(line)
    if signal is not None:
        return _OF_SIGNAL.get(signal)
    code = _CODE.search(line)
    if code is None:
        return None
    number = int(code[1])
    signal = -number if number < 0 else number - _BEYOND_SIGNALS
    return _OF_SIGNAL.get(signal) or _OF_CODE.get(number)


def _signal_in(line: str) -> int | None:
    match = _SIGNAL.search(line)
    if match is not None:
        name, number = match[1] or match[4], match[2] or match[3]
        return int(number) if number else _NUMBERS.get(name)
    match = _WORD.search(line)
    return _WORDS[match[1].lower()] if match is not None else None
