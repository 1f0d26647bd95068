"""Tells which changes of arguments one rule cannot make together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from jumar.convert.user_rules.model import (
    AddArgument,
    Argument,
    Change,
    RemoveArgument,
    RenameKeyword,
    ReorderArguments,
    ReplaceText,
    SetArgument,
)

_VALUE = (SetArgument, RemoveArgument, ReplaceText)
"""Changes that say what becomes of an argument that is passed: of one argument only one can hold."""


def conflict(changes: Sequence[Change]) -> str:
    """Return in words which two changes exclude each other, empty when none do."""
    for first, second in combinations(changes, 2):
        if _exclude(first, second) or _exclude(second, first):
            return f"{_words(first)} and {_words(second)}"
    return ""


def in_order(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes with the arguments that are added by keyword last: a position cannot follow a keyword."""
    return tuple(
        sorted(changes, key=lambda change: isinstance(change, AddArgument) and change.argument.name is not None)
    )


def _exclude(first: Change, second: Change) -> bool:
    if isinstance(first, RenameKeyword):
        return isinstance(second, RenameKeyword) and bool({first.old, first.new} & {second.old, second.new})
    if isinstance(first, ReorderArguments):
        moved = len(first.order)
        return isinstance(second, ReorderArguments) or (
            isinstance(second, _VALUE) and second.argument.position is not None and second.argument.position < moved
        )
    if isinstance(second, RenameKeyword):
        return isinstance(first, RemoveArgument) and first.argument.name == second.old
    if isinstance(second, ReorderArguments) or not _same(first.argument, second.argument):
        return False
    if isinstance(first, AddArgument):
        return isinstance(second, AddArgument | RemoveArgument)
    both_texts = isinstance(first, ReplaceText) and isinstance(second, ReplaceText)
    return isinstance(second, _VALUE) and not (both_texts and first.old != second.old)  # type: ignore[union-attr]


def _same(first: Argument, second: Argument) -> bool:
    same_name = first.name is not None and first.name == second.name
    return same_name or (first.position is not None and first.position == second.position)


def _words(change: Change) -> str:
    if isinstance(change, RenameKeyword):
        return f'the renaming of "{change.old}"'
    if isinstance(change, ReorderArguments):
        return f"the reordering {list(change.order)}"
    verbs = {SetArgument: "set", AddArgument: "add", RemoveArgument: "remove", ReplaceText: "in"}
    return f"{verbs[type(change)]} of {change.argument}"
