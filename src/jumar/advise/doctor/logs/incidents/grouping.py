"""`groups_of`: the errors of one file, put together to incidents. `lead_of`: the one that an incident is named after.

The first error counts. Of those of one incident a cause comes before what it led to, and that before a call that only
says that something failed.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from datetime import timedelta

from jumar.advise.doctor.logs.engine.hits import FileReport, Hit
from jumar.base.findings import Severity

_NEAR_LINES = 60
"""Errors of one writer so close together belong to one incident …"""
_NEAR_TIMED_LINES = 400
"""… and so close together where their times are, too …"""
_NEAR = timedelta(seconds=60)
"""… which are never farther apart."""
_DETAIL = (0, 0, 6, 6, _NEAR_LINES)
"""By weight: so near an error that something explains, a line that only names one goes on with its text."""
_VENDOR_WORDS = re.compile(
    r"NPU|\bnpu\b|\bACL|\bacl[A-Z_]|aclnn|HCCL|hccl|CANN|Ascend|AiCore|AI ?CPU|\bGE\b|rtStream|drv|error code|ret\b|"
    r"EZ9999|\bE[A-Z]\d{4}\b|Call\w* .*failed|[Tt]imed? ?out"
)
_WRAPPING = frozenset({"RuntimeError", "Error", "Exception", "SystemError", "OSError", "DistBackendError", "AclError"})
"""Exceptions that pass on what a library said."""
_TIERS = {"cause": 0, "symptom": 1, "consequence": 4, "wrapper": 8, "harmless": 12}
_CODE_OF_CONSEQUENCE = 3
_UNKNOWN_CODE = 5
_WORDS = (6, 7, 9, 10, 11)
"""By weight: an exception, or what only a failure prints, before what says that a call failed; other words after."""
_KINDS = {"message": 0, "code": 1, "return-code": 2}


def groups_of(report: FileReport) -> list[list[Hit]]:
    """Return the errors of a file by incidents, in the order of their first lines."""
    groups: list[list[Hit]] = []
    hits = _without_explained(report.hits)
    told = [hit for hit in hits if not _is_loose(hit)]
    for hit in [*told, *_words_apart(hits, told)]:
        group = next((group for group in reversed(groups) if _belongs(group, hit)), None)
        if group is None:
            groups.append([hit])
        else:
            group.append(hit)
    for group in groups:
        group.sort(key=lambda hit: hit.line)
    return sorted(groups, key=lambda group: group[0].line)


def _without_explained(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out unexplained plog lines where the table explains an error of the same file."""
    explained = any(hit.signature is not None and hit.severity is Severity.ERROR for hit in hits)
    return [hit for hit in hits if not (explained and hit.module)]


def _words_apart(hits: Sequence[Hit], told: Sequence[Hit]) -> list[Hit]:
    """Return the lines that only name an error, without those that go on with the text of an error beside them."""
    errors = [hit for hit in told if hit.severity is Severity.ERROR]
    heads = {hit.traceback.first_line for hit in errors if hit.traceback is not None}
    lines = [hit.line for hit in errors]
    return [
        hit
        for hit in hits
        if hit.judgement is not None
        and _is_loose(hit)
        and (hit.judgement.weight < 2 or not _is_beside(hit.line, lines, _DETAIL[hit.judgement.weight]))
        and hit.line + 1 not in heads  # a logger says so before it prints the traceback
    ]


def _is_loose(hit: Hit) -> bool:
    """Tell whether a line only names an error, and is no exception: a traceback may lie above the log's first line."""
    return hit.judgement is not None and hit.judgement.weight > 0


def _says_little(hit: Hit) -> bool:
    """Tell whether an error may be better told by a line beside it that only names one."""
    return hit.is_word_only or hit.role == "wrapper"


def _is_beside(line: int, lines: Sequence[int], distance: int) -> bool:
    at = bisect(lines, line)
    return any(abs(line - other) <= distance for other in lines[max(0, at - 1) : at + 1])


def _belongs(group: Sequence[Hit], hit: Hit) -> bool:
    start = hit.traceback.first_line if hit.traceback is not None else hit.line
    near = min(group, key=lambda one: abs(start - one.line))
    if near.severity is not hit.severity or (_is_loose(hit) and not all(map(_says_little, group))):
        return False
    if _is_another_writer({one.writer for one in group} - {""}, hit.writer):
        return False
    if _differ({one.rank for one in group} - {None}, hit.rank):
        return False
    distance = abs(start - near.line)
    if near.time is None or hit.time is None:
        return distance <= _NEAR_LINES
    return distance <= _NEAR_TIMED_LINES and abs(hit.time - near.time) <= _NEAR


def _is_another_writer(known: set[str], writer: str) -> bool:
    """Tell whether another writer printed a line; `train pid=1` may be one that also says `train pid=1 rank0`."""
    if not (known and writer):
        return False
    return not any(f"{one} ".startswith(f"{writer} ") or f"{writer} ".startswith(f"{one} ") for one in known)


def _differ(known: set[int | None], one: int | None) -> bool:
    return one is not None and bool(known) and one not in known


def lead_of(hits: Sequence[Hit]) -> Hit:
    """Return the most telling error: by role, then by what explains what, then by form, then the first one."""
    best = min(map(tier_of, hits))
    leading = [hit for hit in hits if tier_of(hit) == best]
    explained = {name for hit in leading if hit.signature is not None for name in hit.signature.over}
    over = [hit for hit in leading if hit.signature is None or hit.signature.name not in explained]
    return min(over or leading, key=lambda hit: (_form_of(hit), hit.line))


def tier_of(hit: Hit) -> int:
    """Return how telling an error is: 0 for a cause, more for what says less."""
    if hit.judgement is not None:
        return _WORDS[hit.judgement.weight]
    if hit.signature is not None:
        is_code = hit.role == "consequence" and hit.code != ""
        return _CODE_OF_CONSEQUENCE if is_code else _TIERS[hit.role]
    if hit.traceback is None:
        return _UNKNOWN_CODE
    if hit.traceback.exception.startswith("ray.exceptions.RayTaskError"):
        return _TIERS["wrapper"]  # the exception of the task follows it
    return _TIERS["consequence"] if _passes_on(hit) else _TIERS["symptom"]


def _passes_on(hit: Hit) -> bool:
    """Tell whether an exception only passes on what the vendor's software said: a code below it says more."""
    assert hit.traceback is not None
    name = hit.traceback.exception.rpartition(".")[2]
    return name in _WRAPPING and _VENDOR_WORDS.search(hit.traceback.message) is not None


def _form_of(hit: Hit) -> int:
    return 0 if hit.signature is None else _KINDS[hit.signature.kind]
