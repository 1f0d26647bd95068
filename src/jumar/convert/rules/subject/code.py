"""Positions of statements in the text, and replacements that put lines beside them or blocks around them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.source import Source

_INDENT = "    "

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


def statement_of(source: Source, node: cst.CSTNode) -> Statement | None:
    """Return the innermost whole statement that `node` is or stands in; None in a one-line suite (`if x: y()`)."""
    for around in (node, *source.ancestors(node)):
        if isinstance(around, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return around
        if isinstance(around, cst.SimpleStatementSuite):
            return None
    return None


def suite_of(source: Source, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the statements of the suite that `statement` stands in."""
    parent = source.parent(statement)
    return list(parent.body) if isinstance(parent, (cst.IndentedBlock, cst.Module)) else []


def start_of(source: Source, statement: Statement) -> int:
    """Return the offset where a statement starts, its decorators included."""
    decorators: Sequence[cst.Decorator] = getattr(statement, "decorators", ())
    return source.span(decorators[0] if decorators else statement)[0]


def indent_of(source: Source, statement: Statement) -> str:
    """Return the white space before a statement, which is the first of its line."""
    start = start_of(source, statement)
    return source.text.text[source.text.line_start(start) : start]


def lines_before(source: Source, statement: Statement, *lines: str) -> Replacement:
    """Return the insertion of lines before a statement, indented like it; lines are relative to that."""
    at = source.text.line_start(start_of(source, statement))
    return Replacement(at, at, _indented(source, statement, lines))


def lines_after(source: Source, statement: cst.SimpleStatementLine, *lines: str) -> Replacement:
    """Return the insertion of lines after a simple statement and the comment behind it."""
    text = source.text
    at = text.line_end(last_offset(source, statement))
    body = _indented(source, statement, lines)
    if at > 0 and text.text[at - 1] not in "\r\n":
        body = text.newline + body.removesuffix(text.newline)
    return Replacement(at, at, body)


def _indented(source: Source, statement: Statement, lines: Sequence[str]) -> str:
    indent, newline = indent_of(source, statement), source.text.newline
    return "".join(f"{indent}{line}{newline}" if line else newline for line in lines)


def deleted(source: Source, statement: cst.SimpleStatementLine) -> Replacement:
    """Return the deletion of a simple statement with its line; a comment behind it stays, on a line of its own."""
    start, end = source.span(statement)[0], last_offset(source, statement)
    text, after = source.text.text, source.text.line_end(end)
    comment = text.find("#", end, after)
    if comment >= 0:
        return Replacement(start, comment, "")
    return Replacement(source.text.line_start(start), after, "")


def wrapped(source: Source, first: Statement, last: Statement, header: str) -> tuple[Replacement, ...]:
    """Return the replacements that put `header` (`with x:`) around the statements from `first` to `last`.

    Every line is indented by one step, except those that lie within a string.
    """
    text = source.text
    start, end = text.line_start(start_of(source, first)), _end_of(source, last)
    step = default_indent(source)
    inserted = [lines_before(source, first, header)]
    strings = list(_strings(source, start, end))
    at = start
    while at < end:
        following = text.line_end(at)
        blank = not text.text[at:following].strip()
        if not blank and not any(low < at < high for low, high in strings):
            inserted.append(Replacement(at, at, step))
        at = following
    head = Replacement(start, start, inserted[0].text + step)
    return (head, *(replacement for replacement in inserted[1:] if replacement.start != start))


def default_indent(source: Source) -> str:
    """Return one step of this file's indentation."""
    return source.module.default_indent or _INDENT


def _end_of(source: Source, statement: Statement) -> int:
    """Return the offset behind the last line of a statement."""
    return source.text.line_end(max(0, last_offset(source, statement) - 1))


def last_offset(source: Source, statement: cst.CSTNode) -> int:
    """Return the offset behind the last token of a statement, whatever follows its parts."""
    stack, end = [statement], source.span(statement)[1]
    while stack:
        node = stack.pop()
        for child in node.children:
            with contextlib.suppress(KeyError):  # white space has no span
                end = max(end, source.span(child)[1])
            stack.append(child)
    return end


def _strings(source: Source, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of strings that may go over several lines."""
    for node in source.nodes(cst.SimpleString, cst.FormattedString):
        low, high = source.span(node)
        if start <= low < end and "\n" in source.text.text[low:high]:
            yield low, high
