"""Jumar's own form of rules: a list, one table a rule, in TOML or JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from jumar.base.findings import Safety, Severity
from jumar.convert.user_rules.fields import Table, is_import
from jumar.convert.user_rules.model import (
    AddArgument,
    Argument,
    Change,
    RemoveArgument,
    RenameKeyword,
    ReorderArguments,
    ReplaceText,
    RuleTest,
    SetArgument,
    UserRule,
)
from jumar.convert.user_rules.patterns import Pattern, fill, is_dotted_name, is_pattern, renamed
from jumar.convert.user_rules.together import conflict

_FIELDS = (
    "name", "match", "called", "rename", "arguments", "requires", "keep", "message", "why", "action", "severity",
    "safety", "target", "tests",
)  # fmt: skip
_SEVERITIES = {severity.label: severity for severity in Severity}
_SAFETIES: dict[str, Safety] = {"safe": "safe", "unsafe": "unsafe", "display-only": "display-only"}
_TARGETS: dict[str, Literal["npu", "agnostic"]] = {"npu": "npu", "agnostic": "agnostic"}
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def own_rules(top: Table) -> Iterator[UserRule]:
    """Yield the rules of the list `rules`. Raises InputError where it is malformed."""
    seen: dict[str, str] = {}
    for entry in top.tables("rules"):
        rule = _rule(entry)
        if rule.name in seen:
            entry.fail("name", f"must be the rule's own; {seen[rule.name]} has it, too")
        seen[rule.name] = rule.place
        yield rule


def _rule(entry: Table) -> UserRule:
    entry.only(*_FIELDS)
    rule = UserRule(
        name=entry.word("name", "must be lower-case words joined by hyphens, such as our-loader", _is_rule_name),
        place=entry.place,
        patterns=tuple(_patterns(entry)),
        called=entry.flag("called"),
        rename=_rename(entry),
        changes=tuple(_change(item) for item in entry.tables("arguments")),
        requires=tuple(_requires(entry)),
        keep=entry.flag("keep"),
        message=entry.text("message", ""),
        why=entry.text("why", ""),
        action=entry.text("action", ""),
        severity=entry.one_of("severity", _SEVERITIES) if "severity" in entry else None,
        safety=entry.one_of("safety", _SAFETIES) if "safety" in entry else "safe",
        target=entry.one_of("target", _TARGETS) if "target" in entry else None,
        tests=tuple(_test(item) for item in entry.tables("tests")),
    )
    _check_whole(entry, rule)
    return rule


def _check_whole(entry: Table, rule: UserRule) -> None:
    """Raise InputError for fields that contradict each other, or do nothing together."""
    if rule.keep and (rule.edits or rule.requires):
        entry.fail("keep", "must not stand beside rename, arguments or requires")
    if not rule.keep and not rule.edits and not rule.message:
        entry.fail("name", "must name a rule that does something: give it rename, arguments, keep = true or a message")
    if rule.requires and not rule.edits:
        entry.fail("requires", "must stand beside rename or arguments")
    if "safety" in entry and not rule.edits:
        entry.fail("safety", "must stand beside rename or arguments")
    if rule.called and not all(pattern.is_attribute for pattern in rule.patterns):
        entry.fail("called", "must stand only beside names behind a dot, such as .to_gpu")
    if excluding := conflict(rule.changes):
        entry.fail("arguments", f"must say one thing of an argument, and {excluding} exclude each other")
    if any(isinstance(change, ReorderArguments) for change in rule.changes) and rule.rename is None:
        entry.fail("arguments", "must not reorder without rename, or a second conversion would reorder again")
    if rule.rename is not None:
        _check_rename(entry, rule, rule.rename)


def _check_rename(entry: Table, rule: UserRule, new: str) -> None:
    """Raise InputError where the new name has other stars than the old ones, or would be renamed again."""
    stars = Pattern(text=new).num_stars
    for pattern in rule.patterns:
        if stars not in (0, pattern.num_stars):
            entry.fail("rename", f"must have no star, or as many as {pattern.text} in match")
        if pattern.is_attribute and "." in new:
            entry.fail("rename", f"must be one word beside {pattern.text} in match")
        sample = renamed(pattern, fill(pattern.text, ["a"] * pattern.num_stars), new)
        if pattern.match(sample.removeprefix(".")) is not None:
            entry.fail("rename", f"must give names that {pattern.text} in match does not match again")


def _is_rule_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _patterns(entry: Table) -> Iterator[Pattern]:
    entry.any("match")
    texts = entry.texts("match")
    if not texts:
        entry.fail("match", "must name something")
    for text in texts:
        if not is_pattern(text):
            expected = "must be qualified names such as ours.data.load or ours.*.load, or .to_gpu for a method"
            entry.fail("match", expected, value=text)
        yield Pattern(text=text)


def _rename(entry: Table) -> str | None:
    if "rename" not in entry:
        return None
    expected = "must be a new qualified name, such as ours.npu.load, or one word for the last part of the old one"
    return entry.word("rename", expected, lambda text: is_dotted_name(text.replace("**", "a").replace("*", "a")))


def _requires(entry: Table) -> Iterator[str]:
    for text in entry.texts("requires"):
        if not is_import(text):
            entry.fail("requires", "must be import statements, such as import ours_npu", value=text)
        yield text.strip()


def _test(entry: Table) -> RuleTest:
    entry.only("before", "after")
    return RuleTest(before=entry.text("before"), after=entry.text("after"))


def _argument(entry: Table, key: str) -> Argument:
    """Read `0`, or a keyword, beside which `position` may say where else the argument is passed."""
    value = entry.any(key)
    if isinstance(value, str):
        position = entry.count("position") if "position" in entry else None
        return Argument(name=entry.name(key), position=position)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        entry.fail(key, "must be a position from 0 up, or a keyword")
    if "position" in entry:
        entry.fail("position", f"must stand only where {key} is a keyword")
    return Argument(position=value)


def _set(entry: Table) -> Change:
    return SetArgument(argument=_argument(entry, "set"), value=entry.expression("value").strip())


def _add(entry: Table) -> Change:
    return AddArgument(argument=_argument(entry, "add"), value=entry.expression("value").strip())


def _remove(entry: Table) -> Change:
    return RemoveArgument(argument=_argument(entry, "remove"))


def _keyword(entry: Table) -> Change:
    return RenameKeyword(old=entry.name("rename"), new=entry.name("to"))


def _text(entry: Table) -> Change:
    old = entry.word("old", "must not be empty", bool)
    return ReplaceText(argument=_argument(entry, "in"), old=old, new=_plain(entry, "new"))


def _plain(entry: Table, key: str) -> str:
    """Read a text that can stand in any string literal."""
    fine = "must be text without quotes, backslashes, braces and line ends"
    return entry.word(key, fine, lambda text: not set(text) & set("'\"\\{}\n\r") and text.isprintable())


def _reorder(entry: Table) -> Change:
    order: Any = entry.any("reorder")
    numbers = isinstance(order, list) and all(type(item) is int for item in order)
    if not numbers or sorted(order) != list(range(len(order))) or len(order) < 2:
        entry.fail("reorder", "must be the positions from 0 up in their new order, such as [1, 0]")
    return ReorderArguments(order=tuple(order))


_CHANGES: dict[str, tuple[Callable[[Table], Change], tuple[str, ...]]] = {
    "set": (_set, ("set", "position", "value")),
    "add": (_add, ("add", "position", "value")),
    "remove": (_remove, ("remove", "position")),
    "rename": (_keyword, ("rename", "to")),
    "in": (_text, ("in", "position", "old", "new")),
    "reorder": (_reorder, ("reorder",)),
}
"""What tells a change, and the fields it has."""


def _change(entry: Table) -> Change:
    kinds = [kind for kind in _CHANGES if kind in entry]
    if len(kinds) != 1:
        words = ", ".join(_CHANGES)
        key = kinds[-1] if kinds else next(iter(entry.values), "set")
        entry.fail(key, f"must be beside none other: a change has exactly one of {words}", value=list(entry.values))
    read, fields = _CHANGES[kinds[0]]
    entry.only(*fields)
    return read(entry)
