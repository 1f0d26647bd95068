"""`Registry`: rules by code and by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from jumar.base.errors import UsageError
from jumar.base.rules.rule import Rule


class Registry:
    """Rules by code. Raises ValueError when two rules share a code or a name."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_code: dict[str, Rule] = {}
        names: set[str] = set()
        for rule in rules:
            if rule.code in self._by_code or rule.name in names:
                raise ValueError(f"rule {rule.code} {rule.name} is registered twice")
            self._by_code[rule.code] = rule
            names.add(rule.name)

    def __iter__(self) -> Iterator[Rule]:
        """Rules in the order of their codes."""
        return iter(sorted(self._by_code.values(), key=lambda rule: rule.code))

    def __len__(self) -> int:
        return len(self._by_code)

    def find(self, code_or_name: str) -> Rule | None:
        """Return the rule with this code (any case) or name, or None."""
        by_code = self._by_code.get(code_or_name.upper())
        if by_code is not None:
            return by_code
        return next((rule for rule in self if rule.name == code_or_name.lower()), None)

    def named(self, code_or_name: str) -> Rule:
        """Return the rule with this code or name. Raises UsageError, which names the nearest ones, without one."""
        rule = self.find(code_or_name)
        if rule is not None:
            return rule
        names = [name.lower() for rule in self for name in (rule.code, rule.name)]
        near = difflib.get_close_matches(code_or_name.lower(), names, n=3, cutoff=0.5)
        nearest = [found for name in near if (found := self.find(name)) is not None]
        hint = " or ".join(f"{rule.code} ({rule.name})" for rule in dict.fromkeys(nearest))
        raise UsageError(f'"{code_or_name}" is not a rule. Try {hint or "`jumar rule` for the list"}.')
