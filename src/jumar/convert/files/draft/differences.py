"""The small replacements that turn one text into another."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from jumar.convert.model.edits import Replacement

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def differences(before: str, after: str) -> tuple[Replacement, ...]:
    """Return replacements, sorted and apart, that make `after` of `before`; lines that are equal stay untouched."""
    old, new = _LINES.findall(before), _LINES.findall(after)
    starts = _starts(old)
    found: list[Replacement] = []
    for tag, low, high, new_low, new_high in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if high - low == new_high - new_low:
            for index in range(high - low):
                found.extend(_trimmed(starts[low + index], old[low + index], new[new_low + index]))
        else:
            found.extend(_trimmed(starts[low], "".join(old[low:high]), "".join(new[new_low:new_high])))
    return tuple(found)


def _starts(lines: list[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def _trimmed(start: int, old: str, new: str) -> Iterator[Replacement]:
    """Yield the replacement of the characters between what both texts start and end with."""
    limit = min(len(old), len(new))
    head = next((index for index in range(limit) if old[index] != new[index]), limit)
    limit -= head
    tail = next((index for index in range(limit) if old[-1 - index] != new[-1 - index]), limit)
    if old != new:
        yield Replacement(start + head, start + len(old) - tail, new[head : len(new) - tail])
