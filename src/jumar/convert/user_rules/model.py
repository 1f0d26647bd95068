"""User rules as values: what a `UserRule` matches, what it changes, and its tests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from jumar.base.findings import Safety, Severity
from jumar.convert.user_rules.patterns import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a call: by its position (from 0), by its keyword, or by either where both are given."""

    position: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        """`argument 0`, `argument "device"`, or both."""
        words = [f'"{self.name}"'] if self.name is not None else []
        return "argument " + " or ".join(words + ([str(self.position)] if self.position is not None else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetArgument:
    """Replace the value of an argument that is passed."""

    argument: Argument
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddArgument:
    """Pass an argument that is not passed yet: at a position, or else by keyword."""

    argument: Argument
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveArgument:
    """Pass an argument no longer."""

    argument: Argument


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameKeyword:
    """Pass an argument under another keyword."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceText:
    """Replace a part of the string literals of an argument."""

    argument: Argument
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderArguments:
    """Pass the first arguments in another order: `(1, 0)` swaps the first two."""

    order: tuple[int, ...]


Change = SetArgument | AddArgument | RemoveArgument | RenameKeyword | ReplaceText | ReorderArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """A source before and after the rules of its file, and nothing else, were applied."""

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRule:
    """One rule of a user."""

    name: str
    place: str
    """Where it stands in its file: `rules[2]`, `rules.FuncNameModifyRule[0]`."""
    patterns: tuple[Pattern, ...]
    called: bool = False
    """Whether an attribute of an unknown object must be called to be meant."""
    functions: bool = False
    """Whether the names behind a dot mean functions of the file itself, too, when they are called."""
    rename: str | None = None
    """The new name: qualified, with the stars of the pattern, or one word for the last part of the old one."""
    changes: tuple[Change, ...] = ()
    requires: tuple[str, ...] = ()
    keep: bool = False
    """Leave the place as it is, whatever other rules would do."""
    message: str = ""
    why: str = ""
    action: str = ""
    severity: Severity | None = None
    safety: Safety = "safe"
    target: Literal["npu", "agnostic"] | None = None
    """The only target the rule is for; None: all."""
    tests: tuple[RuleTest, ...] = ()

    @property
    def edits(self) -> bool:
        """Whether the rule changes anything."""
        return self.rename is not None or bool(self.changes)


@dataclass(frozen=True, kw_only=True)
class UserRules:
    """The rules of one file, in their order; none by default. Picklable, so that workers can share them."""

    rules: tuple[UserRule, ...] = field(default=())
    path: str = ""
    """The file they come from, as it was given."""

    def __bool__(self) -> bool:
        return bool(self.rules)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the rules, equal for equal rules whatever the path of their file."""
        return hashlib.sha256(repr(self.rules).encode("utf-8", "backslashreplace")).hexdigest()

    @cached_property
    def words(self) -> frozenset[bytes] | None:
        """A rule applies only to sources that hold one of these words; None: any source may be meant."""
        found = [pattern.word for rule in self.rules for pattern in rule.patterns]
        return None if "" in found else frozenset(word.encode() for word in found)

    def concern(self, data: bytes) -> bool:
        """Tell whether a rule may apply to a source with these bytes; asked before it is parsed."""
        if not self.rules:
            return False
        return self.words is None or any(word in data for word in self.words)
