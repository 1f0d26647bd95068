"""Edits of a text: an `EditSet` takes all replacements of a `Proposal`, or refuses all of them.

Rules propose token-sized replacements, so that two rules seldom touch the same characters, and
whatever stands between the tokens (comments, line breaks) is never rewritten.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jumar.base.findings import Edit, Finding, Json, Safety, Severity
from jumar.base.rules import Rule
from jumar.convert.model.spans import Span
from jumar.convert.model.text import SourceText


@dataclass(frozen=True, slots=True, order=True)
class Replacement:
    """Put `text` in place of the characters from `start` up to `end` (equal: an insertion)."""

    start: int
    end: int
    text: str

    def overlaps(self, other: Replacement) -> bool:
        """Tell whether both cannot be applied: they share a character, or one inserts inside the other."""
        return max(self.start, other.start) < min(self.end, other.end) or (
            (self.start == self.end and other.start < self.start < other.end)
            or (other.start == other.end and self.start < other.start < self.end)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a rule says about one place: a message, and the replacements it would make (maybe none)."""

    rule: Rule
    span: Span
    message: str
    replacements: tuple[Replacement, ...] = ()
    safety: Safety = "safe"
    severity: Severity | None = None
    """None: INFO where the edit is applied, the rule's own severity where it is not."""
    action: str = ""
    why: str = ""
    confidence: str = "certain"
    evidence: Mapping[str, Json] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    """Statements the edit needs at module level (`import os`); each is added once, where it is missing."""


class EditSet:
    """Accepted replacements of one text, free of conflicts, in the order of the text."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, int, int, Replacement]] = []
        self._known: set[Replacement] = set()

    def __len__(self) -> int:
        return len(self._sorted)

    def accept(self, replacements: Sequence[Replacement]) -> bool:
        """Take all of `replacements`, or none when one of them conflicts with an accepted one.

        A replacement that is already there is taken once.
        """
        new = [replacement for replacement in dict.fromkeys(replacements) if replacement not in self._known]
        if any(self._conflicts(replacement) for replacement in new):
            return False
        for replacement in new:
            bisect.insort(self._sorted, (replacement.start, replacement.end, len(self._known), replacement))
            self._known.add(replacement)
        return True

    def _conflicts(self, new: Replacement) -> bool:
        at = bisect.bisect_left(self._sorted, (new.start,))
        nearby = [*self._sorted[max(0, at - 2) : at], *self._following(at, new.end)]
        return any(new.overlaps(item[3]) for item in nearby)

    def _following(self, at: int, end: int) -> Iterable[tuple[int, int, int, Replacement]]:
        while at < len(self._sorted) and self._sorted[at][0] <= end:
            yield self._sorted[at]
            at += 1

    @property
    def made(self) -> tuple[Replacement, ...]:
        """The accepted replacements, in the order of the text."""
        return tuple(item[3] for item in self._sorted)

    def apply(self, text: str) -> str:
        """Return `text` with every accepted replacement made."""
        return apply(text, [item[3] for item in self._sorted])


def apply(text: str, replacements: Sequence[Replacement], offset: int = 0) -> str:
    """Return `text`, which starts at `offset` of the whole, with sorted, disjoint replacements made."""
    parts: list[str] = []
    done = 0
    for replacement in replacements:
        parts.append(text[done : replacement.start - offset])
        parts.append(replacement.text)
        done = replacement.end - offset
    parts.append(text[done:])
    return "".join(parts)


def to_finding(proposal: Proposal, source: SourceText, path: str, *, applied: bool) -> Finding:
    """Return the proposal as a finding; its edit shows the whole lines before and after."""
    start, end = proposal.span
    line, column = source.position(start)
    last, _ = source.position(max(start, end - 1))
    severity = proposal.severity
    if severity is None:
        severity = Severity.INFO if applied else proposal.rule.severity
    finding = proposal.rule.finding(proposal.message, action=proposal.action, why=proposal.why, severity=severity)
    where = type(finding.where)(path=path, line=line, column=column, end_line=last)
    confidence = proposal.confidence
    return Finding(
        code=finding.code,
        severity=severity,
        message=finding.message,
        where=where,
        evidence={**proposal.evidence, **({"applied": applied} if proposal.replacements else {})},
        why=finding.why,
        action=finding.action,
        edit=lines_edit(proposal.replacements, source, path, proposal.safety),
        confidence=confidence,  # type: ignore[arg-type]  # rules pass one of Finding's literals
    )


def lines_edit(replacements: Sequence[Replacement], source: SourceText, path: str, safety: Safety) -> Edit | None:
    """Return replacements as the whole lines before and after them, None where there are none."""
    if not replacements:
        return None
    ordered = sorted(replacements, key=lambda item: (item.start, item.end))  # as EditSet applies them
    start = source.line_start(ordered[0].start)
    end = source.line_end(max(ordered[0].start, ordered[-1].end - 1))
    before = source.text[start:end]
    first, _ = source.position(start)
    last, _ = source.position(max(start, end - 1))
    after = apply(before, ordered, start)
    return Edit(path=path, start_line=first, end_line=last, before=before, after=after, safety=safety)
