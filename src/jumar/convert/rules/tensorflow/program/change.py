"""Edits of calls and statements that the rules for TensorFlow share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.subject.code import Statement, deleted, last_offset, statement_of, suite_of
from jumar.convert.syntax.source import Source


def replaced(source: Source, node: cst.BaseExpression, text: str) -> Replacement:
    """Return the replacement of an expression, without the parentheses around it."""
    start, end = source.span(node)
    return Replacement(start, end, text)


def around(source: Source, node: cst.BaseExpression, before: str, after: str = ")") -> tuple[Replacement, ...]:
    """Return the insertions that put a call around an expression."""
    start, end = source.outer_span(node)
    return Replacement(start, start, before), Replacement(end, end, after)


def without(source: Source, call: cst.Call, gone: Sequence[cst.Arg]) -> tuple[Replacement, ...]:
    """Return the removals of arguments, each with the comma that it no longer needs."""
    found = []
    args = list(call.args)
    for arg in gone:
        at = args.index(arg)
        start, end = _span(source, arg)
        kept_after = next((other for other in args[at + 1 :] if other not in gone), None)
        if kept_after is not None:
            end = _span(source, args[at + 1])[0]
        elif at:
            start = _span(source, args[at - 1])[1]
        elif isinstance(arg.comma, cst.Comma):
            end = source.text.text.index(",", end) + 1
        found.append(Replacement(start, end, ""))
    return tuple(found)


def _span(source: Source, arg: cst.Arg) -> tuple[int, int]:
    start = source.span(arg)[0]
    return start, source.outer_span(arg.value)[1]


def with_argument(source: Source, call: cst.Call, text: str, gone: Sequence[cst.Arg] = ()) -> tuple[Replacement, ...]:
    """Return the insertion of a last argument by keyword, beside the removal of others."""
    kept = [arg for arg in call.args if arg not in gone]
    removals = without(source, call, gone)
    if kept:
        at = _span(source, kept[-1])[1]
        return (Replacement(at, at, f", {text}"), *removals)
    at = removals[0].start if removals else source.span(call)[1] - 1
    return (Replacement(at, at, text), *removals)


def keyword_for(call: cst.Call, index: int, name: str) -> cst.Arg | None:
    """Return the argument passed for a parameter, by keyword or position; None where none is."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg
    positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
    return positional[index] if index < len(positional) else None


def has_stars(call: cst.Call) -> bool:
    """Tell whether a call unpacks arguments."""
    return any(arg.star for arg in call.args)


def removed(source: Source, node: cst.CSTNode) -> Replacement | None:
    """Return the removal of the whole simple statement that `node` is in; None where it cannot go alone.

    A statement that is the last one of its block becomes `pass`.
    """
    return removed_all(source, [node])[node]


def removed_all(source: Source, nodes: Iterable[cst.CSTNode]) -> dict[cst.CSTNode, Replacement | None]:
    """Return the removal of several statements; where nothing stays of a block, the first becomes `pass`."""
    found: dict[cst.CSTNode, Replacement | None] = {}
    statements: dict[cst.CSTNode, Statement | None] = {node: statement_of(source, node) for node in nodes}
    going = {statement for statement in statements.values() if statement is not None}
    kept_by: set[cst.CSTNode] = set()
    gone = source.derived(_gone)
    for node, statement in statements.items():
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            found[node] = None
            continue
        suite, parent = suite_of(source, statement), source.parent(statement)
        empty = not isinstance(parent, cst.Module) and all(each in going or each in gone for each in suite)
        if empty and parent is not None and parent not in kept_by:
            kept_by.add(parent)
            found[node] = Replacement(source.span(statement)[0], last_offset(source, statement), "pass")
        else:
            found[node] = deleted(source, statement)
            gone.add(statement)
    return found


def _gone(source: Source) -> set[cst.CSTNode]:
    """Return the set of the statements that rules have removed from a source so far; `removed_all` adds to it."""
    del source
    return set()


def free_name(source: Source, wanted: str) -> str:
    """Return `wanted`, or a name like it that the file does not use."""
    used = {node.value for node in source.nodes(cst.Name)}
    name, number = wanted, 1
    while name in used:
        number += 1
        name = f"{wanted}_{number}"
    return name
