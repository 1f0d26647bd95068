"""Jumar's rules together with the rules of other distributions: `all_rules`, `rule_named`, `installed_modules`.

An entry point of the group `jumar.rules` names a module (or an object) with a `RULE` and a `find`. The first digit of
the code tells the room that runs it: `ROOMS`. One of the group `jumar.doctor_checks` is run by `jumar doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from jumar.base.plugins import Group
from jumar.base.rules.index import built_in
from jumar.base.rules.registry import Registry
from jumar.base.rules.rule import Rule, RuleModule

DOCTOR = "advise.doctor"
ROOMS: Mapping[str, str] = MappingProxyType(
    {"1": "convert", "2": "convert.assess", "3": "comparison", "4": "advise.bottlenecks", "5": "tune", "8": DOCTOR}
)
"""First digit of a rule's code to the room that gives its subject to `find` of an installed rule."""


def all_rules() -> Registry:
    """Return Jumar's rules and the installed rules of others."""
    return Registry([*built_in().values(), *(module.RULE for module in _modules())])


def summaries() -> Mapping[str, str]:
    """Return rule code to the rule's one-sentence summary."""
    return MappingProxyType({rule.code: rule.summary for rule in all_rules()})


def rule_named(code_or_name: str) -> Rule:
    """Return the rule with this code or name. Raises UsageError, which names the nearest ones, when there is none."""
    # The entry points are asked last: reading what is installed takes longer than everything else here.
    return Registry(built_in().values()).find(code_or_name) or all_rules().named(code_or_name)


def installed_modules(room: str) -> tuple[RuleModule[Any], ...]:
    """Return the rules of others that `room` runs (a value of `ROOMS`), by code."""
    found = [module for module in _RULES.parts() if room_of(module.RULE) == room]
    found += _CHECKS.parts() if room == DOCTOR else ()
    return tuple(sorted(found, key=lambda module: module.RULE.code))


def room_of(rule: Rule) -> str | None:
    """Return the room that runs an installed rule of this code, None where no room does."""
    return ROOMS.get(rule.code[-3])


@contextmanager
def with_rule(module: RuleModule[Any]) -> Iterator[None]:
    """Have this rule, and no installed ones, within the block. For tests."""
    with _RULES.holding(_accept(module)):
        yield


def _modules() -> Iterator[RuleModule[Any]]:
    yield from _RULES.parts()
    yield from _CHECKS.parts()


def _accept(value: Any) -> RuleModule[Any]:
    if not isinstance(getattr(value, "RULE", None), Rule):
        raise TypeError("it must name a module with a RULE, which is a jumar.base.rules.Rule")
    if room_of(value.RULE) is not None and not callable(getattr(value, "find", None)):
        raise TypeError(f"the module of {value.RULE.code} has no function find(subject)")
    found: RuleModule[Any] = value
    return found


def _accept_check(value: Any) -> RuleModule[Any]:
    module = _accept(value)
    if room_of(module.RULE) != DOCTOR:
        raise ValueError(f"the code of a doctor's check must be 8xx behind its letters; got {module.RULE.code}")
    return module


def _names(module: RuleModule[Any]) -> Iterable[str]:
    return module.RULE.code, module.RULE.name


def _built_in_names() -> Iterable[str]:
    return (name for rule in built_in().values() for name in (rule.code, rule.name))


def _names_before_checks() -> Iterable[str]:
    yield from _built_in_names()
    yield from (name for module in _RULES.parts() for name in _names(module))


_RULES = Group("rule", _accept, _names, _built_in_names)
_CHECKS = Group("doctor-check", _accept_check, _names, _names_before_checks)
