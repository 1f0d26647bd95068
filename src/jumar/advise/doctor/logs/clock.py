"""Times and ranks as logs print them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import PurePath

_STAMP = re.compile(
    r"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)(?:[-T ]|, )(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})(?:\.(\d{3}))?)?(?!\d)"
    r"|\[?\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (20\d\d)\b"
    r"|(?<!\d)(\d\d)/(\d\d)/(20\d\d) (\d\d):(\d\d):(\d\d)\b"
)
"""`2022-04-06-07:15:09.383.996` (plog), `2024-03-07-01:31:48` (torch_npu), `2024-11-28 11:59:30,645`
(logging), `2024-11-28T11:59:30.645`, `2024/11/28 11:59:30`, `Thu Nov 28 11:56:34 2024` (dmesg -T, ctime), and
`11/28/2024 11:59:30` (month first). Other forms have no year, so that they cannot be compared."""
_FIELD = re.compile(r'"(?:@?time(?:stamp)?|ts|asctime|datetime)" ?: ?"([^"]{10,40})"', re.IGNORECASE)
"""The time that a logger or a container gives a line in JSON. The text in it may tell one by another clock."""
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_RANK = re.compile(r"^\s*\[(?:[a-z]+)?[Rr]ank ?(\d+)\]|^\s*\[default(\d+)\]|\bRankID:(\d+)\b")
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|local_rank|worker)[-_. ]?(\d+)(?=\D|$)", re.IGNORECASE)


def time_in(line: str) -> datetime | None:
    """Return the first time printed in `line` (local, as printed, without a zone), or None."""
    match = _field(line) or _STAMP.search(line)
    if match is None:
        return None
    try:
        return _iso(match) if match[1] else _ctime(match) if match[9] else _american(match)
    except ValueError:  # a 13th month: not a time after all
        return None


def _field(line: str) -> re.Match[str] | None:
    """Return the time that a line in JSON has as a whole."""
    field = _FIELD.search(line) if line.startswith("{") else None
    return _STAMP.search(field[1]) if field is not None else None


def _iso(match: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    microsecond = int(f"{match[7] or ''}{match[8] or ''}"[:6].ljust(6, "0"))
    return datetime(year, month, day, hour, minute, second, microsecond)


def _ctime(match: re.Match[str]) -> datetime:
    day, hour, minute, second, year = (int(match[index]) for index in range(10, 15))
    return datetime(year, _MONTHS.index(match[9]) + 1, day, hour, minute, second)


def _american(match: re.Match[str]) -> datetime:
    month, day, year, hour, minute, second = (int(match[index]) for index in range(15, 21))
    return datetime(year, month, day, hour, minute, second)


def last_time(lines: Sequence[str]) -> datetime | None:
    """Return the time nearest the end of `lines`, or None."""
    return next((time for line in reversed(lines) if (time := time_in(line)) is not None), None)


def first_time(lines: Sequence[str]) -> datetime | None:
    """Return the time nearest the beginning of `lines`, or None."""
    return next((time for line in lines if (time := time_in(line)) is not None), None)


def rank_in(line: str) -> int | None:
    """Return the rank a line says it is from, or None."""
    match = _RANK.search(line)
    return int(next(group for group in match.groups() if group is not None)) if match else None


def rank_of_path(path: PurePath) -> int | None:
    """Return the rank in a file's name (`rank_3.log`) or, as torchrun lays logs out, its folder (`attempt_0/3/`)."""
    match = _RANK_IN_NAME.search(path.stem)
    if match:
        return int(match[1])
    return next(_folder_ranks(path), None)


def _folder_ranks(path: PurePath) -> Iterator[int]:
    if path.stem in ("stdout", "stderr", "error") and path.parent.name.isdigit():
        yield int(path.parent.name)
    elif match := _RANK_IN_NAME.search(path.parent.name):
        yield int(match[1])
