"""## What it does
Reports a converted file whose bytes do not follow from its recorded edits: something outside them differs
from the original (a line end, the encoding, a comment), the edits made again give another text, or a second
conversion changes the result once more.

## Why it matters
What is not recorded is not reviewed. A conversion that does not come to rest adds to the sources each time
it is run, and cannot be checked in CI.

## Example
```python
import torch_npu
import torch_npu
```

## Use instead
```python
import torch_npu
```

## Fix safety
No edit is made.

## References
- `jumar docs guide-convert`
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.base.findings import Edit, Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Replacement, apply
from jumar.convert.model.text import SourceError, SourceText
from jumar.convert.verify.pair import Pair

RULE = Rule(
    code="JM189",
    name="changes-outside-edits",
    summary="The result does not follow from the recorded edits, or a second conversion changes it again.",
    severity=Severity.ERROR,
    doc=__doc__,
)


_TOKEN = re.compile(r"\w+|\W")
_LINE_END = re.compile(r"\r\n|\r|\n")


def find(pair: Pair) -> Iterator[Finding]:
    """Report a result that the recorded edits do not give."""
    try:
        before, after = SourceText.decode(pair.outcome.before), SourceText.decode(pair.outcome.after)
    except SourceError as error:
        yield pair.finding(RULE, f"its encoding changed: {error.message}")
        return
    if before.mark != after.mark or before.encoding != after.encoding:
        yield pair.finding(RULE, "its encoding or byte-order mark differs from the original's")
        return
    edits = [f.edit for f in pair.outcome.findings if f.edit is not None and f.evidence.get("applied")]
    problem = difference(before.text, after.text, edits)
    if problem is not None:
        yield pair.finding(RULE, problem.message, problem.line)


@dataclass(frozen=True, slots=True)
class Problem:
    """What does not follow from the edits, and the line of the result it is in."""

    message: str
    line: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Edits that share lines: these lines' offsets in the original, and what the edits replace in it."""

    start: int
    end: int
    replacements: tuple[Replacement, ...]


def difference(before: str, after: str, edits: Sequence[Edit]) -> Problem | None:
    """Return the first thing in `after` that `edits` do not make of `before`, None when there is none."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(before)), len(before)]
    for edit in edits:
        at = starts[min(edit.start_line, len(starts)) - 1]
        if before[at : at + len(edit.before)] != edit.before:
            return Problem("an edit was made of another text than the original's", edit.start_line)
    done = position = 0
    for group in _groups(edits, starts):
        problem = _same(before[done : group.start], after, position)
        if problem is not None:
            return problem
        position += group.start - done
        made = apply(before[group.start : group.end], group.replacements, group.start)
        got = after[position : position + len(made)]
        if got != made and not (_is_ambiguous(group) and _has_same_tokens(got, made)):
            return Problem("this is not what the recorded edits give", _line(after, position))
        position, done = position + len(made), group.end
    return _same(before[done:], after, position, to_the_end=True)


def _same(between: str, after: str, position: int, *, to_the_end: bool = False) -> Problem | None:
    found = after[position:] if to_the_end else after[position : position + len(between)]
    if found == between:
        return None
    same = next(
        (i for i, (a, b) in enumerate(zip(found, between, strict=False)) if a != b), min(len(found), len(between))
    )
    return Problem("this differs from the original, and no edit is recorded for it", _line(after, position + same))


def _line(text: str, offset: int) -> int:
    return len(_LINE_END.findall(text, 0, offset)) + 1


def _groups(edits: Sequence[Edit], starts: Sequence[int]) -> Iterator[_Group]:
    """Yield the edits by the lines they share, in the order of the text."""
    spans = sorted(((starts[edit.start_line - 1], edit) for edit in edits), key=lambda item: item[0])
    waiting: list[tuple[int, Edit]] = []
    end = -1
    for start, edit in spans:
        if waiting and start >= end and not (start == end and not edit.before):
            yield _group(waiting, end)
            waiting = []
        end = max(end, start + len(edit.before)) if waiting else start + len(edit.before)
        waiting.append((start, edit))
    if waiting:
        yield _group(waiting, end)


def _group(placed: Sequence[tuple[int, Edit]], end: int) -> _Group:
    replacements = {replacement for start, edit in placed for replacement in reduced(edit.before, edit.after, start)}
    return _Group(placed[0][0], end, tuple(sorted(replacements)))


def reduced(before: str, after: str, offset: int = 0) -> list[Replacement]:
    """Return the token-sized replacements that make `after` of `before`, which starts at `offset` of the whole."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    at = list(itertools.accumulate((len(token) for token in old), initial=offset))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        Replacement(at[i1], at[i2], "".join(new[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _is_ambiguous(group: _Group) -> bool:
    """Tell whether the order of the edits cannot be told from the lines: two touch the same place."""
    return any(a.end >= b.start for a, b in itertools.pairwise(group.replacements))


def _has_same_tokens(found: str, made: str) -> bool:
    return Counter(_TOKEN.findall(found)) == Counter(_TOKEN.findall(made))
