"""Runs the tests of a rule file: the file's rules convert each `before`, with the imports that they need."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.convert.engine.file import convert_source
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Failure
from jumar.convert.rules.order import rules_by_code
from jumar.convert.user_rules.model import RuleTest, UserRule, UserRules

_TAKING_PART = {"JM107", "JM195"}
"""The rule that adds imports, and the one that applies user rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTest:
    """A test whose result is not what the file says."""

    rule: str
    place: str
    """Where the test stands in the file: `rules[0].tests[1]`."""
    text: str
    """What differs, as a diff from what is expected to what came out; or why there is no result."""


def failures(rules: UserRules) -> list[FailedTest]:
    """Run every test of a rule file, for the target its rule is for, and return those that fail."""
    return [failed for rule in rules.rules for failed in _of_rule(rules, rule)]


def _of_rule(rules: UserRules, rule: UserRule) -> Iterator[FailedTest]:
    others = rules_by_code().keys() - _TAKING_PART
    options = ConvertOptions(target=rule.target or "npu", unsafe=True, disable=frozenset(others), user_rules=rules)
    for index, test in enumerate(rule.tests):
        text = _difference(test, options)
        if text:
            yield FailedTest(rule=rule.name, place=f"{rule.place}.tests[{index}]", text=text)


def _difference(test: RuleTest, options: ConvertOptions) -> str:
    outcome = convert_source(test.before, "before", options)
    if isinstance(outcome, Failure):
        return f"{outcome.error}\n"
    expected, actual = _lines(test.after), _lines(outcome.after.decode())
    left = [finding.message for finding in outcome.findings if not finding.evidence.get("applied")]
    difference = "".join(difflib.unified_diff(expected, actual, "after (expected)", "after (actual)"))
    return difference + "".join(f"{message}\n" for message in left if difference)


def _lines(text: str) -> list[str]:
    """Return the lines without what ends the last one: documents begin and end their texts as they like."""
    return [f"{line}\n" for line in text.rstrip().split("\n")]
