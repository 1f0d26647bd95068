"""`Change`: one change of the conversion to several devices, and the places where text can be put."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens at one place: replacements (maybe none) that call `helpers`."""

    span: Span
    message: str
    replacements: tuple[Replacement, ...] = ()
    helpers: frozenset[str] = frozenset()
    severity: Severity | None = None
    action: str = ""
    confidence: str = "certain"
    shared: bool = field(default=False)
    """Whether the place must run after the ranks have joined, because it shares data or waits for other ranks."""

    def proposal(self, rule: Rule, context: Context) -> Proposal:
        """Return the change as a proposal of `rule`."""
        return Proposal(
            rule=rule,
            span=self.span,
            message=self.message,
            replacements=self.replacements,
            severity=self.severity,
            action=self.action,
            confidence=self.confidence,
            requires=context.dialect.requires if self.replacements else (),
        )


def around(source: Source, node: cst.BaseExpression, before: str, after: str = ")") -> tuple[Replacement, Replacement]:
    """Return insertions on both sides of an expression, its parentheses included."""
    start, end = source.outer_span(node)
    return Replacement(start, start, before), Replacement(end, end, after)


def replaced(source: Source, node: cst.BaseExpression, text: str) -> Replacement:
    """Return the replacement of an expression without its parentheses."""
    return _apart(source, Replacement(*source.span(node), text))


def _apart(source: Source, edit: Replacement) -> Replacement:
    """Return an edit that starts a character earlier, with that character, where it is on the same line.

    A rule leaves an expression alone whose first character an earlier one edits; that would be the whole of
    `make(x).cuda()` where only `make` is changed here.
    """
    code = source.text.text
    if edit.start == 0 or code[edit.start - 1] in "\r\n":
        return edit
    return Replacement(edit.start - 1, edit.end, code[edit.start - 1] + edit.text)


def line_before(source: Source, statement: cst.CSTNode, text: str) -> Replacement:
    """Return the insertion of a line of code before a statement and the comments that belong to it."""
    start = source.span(statement)[0]
    code = source.text.text
    at = source.text.line_start(start)
    indent = code[at:start]
    while at > 0:
        above = source.text.line_start(at - 1)
        if not code[above:at].strip().startswith("#") or code[above:at].startswith("#!"):
            break
        at = above
    return Replacement(at, at, f"{indent}{text}{source.text.newline}")


def starts_line(source: Source, statement: cst.CSTNode) -> bool:
    """Tell whether a statement is the first thing on its line, so that a line can go before it."""
    start = source.span(statement)[0]
    return not source.text.text[source.text.line_start(start) : start].strip()


def lines_after(source: Source, end: int, text: str) -> Replacement:
    """Return the insertion of whole lines after the line that ends at or behind the character before `end`."""
    newline = source.text.newline
    at = source.text.line_end(max(0, end - 1))
    ends = at > 0 and source.text.text[at - 1] in "\r\n"
    lines = text.replace("\n", newline)
    return Replacement(at, at, lines + newline if ends else newline + lines)


def statement_of(source: Source, node: cst.CSTNode) -> cst.CSTNode:
    """Return the innermost statement around `node` that stands in a block of its own lines."""
    child: cst.CSTNode = node
    for parent in source.ancestors(node):
        if isinstance(parent, (cst.IndentedBlock, cst.Module)):
            return child
        child = parent
    return child
