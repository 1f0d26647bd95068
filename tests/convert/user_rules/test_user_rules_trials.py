"""The tests that a rule file brings."""

from __future__ import annotations

import json
from typing import Any

from jumar.convert.user_rules.load import loads
from jumar.convert.user_rules.model import UserRules
from jumar.convert.verify.trials import failures


def rules_with(*tests: tuple[str, str], **fields: Any) -> UserRules:
    entry = {"name": "a", "match": "lib.f", "rename": "lib.g", **fields}
    entry["tests"] = [{"before": before, "after": after} for before, after in tests]
    return loads(json.dumps({"rules": [entry]}).encode(), "rules.json")


def test_a_test_that_holds_is_no_failure_whatever_ends_its_last_line() -> None:
    before, after = "import lib\nlib.f()\n", "import lib\nlib.g()"
    assert failures(rules_with((before, after), (before.rstrip(), f"{after}\n\n"))) == []


def test_a_test_that_fails_shows_where_and_what_came_out() -> None:
    (failed,) = failures(rules_with(("import lib\nlib.f()\n", "import lib\nlib.h()\n")))
    assert (failed.rule, failed.place) == ("a", "rules[0].tests[0]")
    assert "-lib.h()\n+lib.g()\n" in failed.text


def test_a_reason_to_leave_a_place_is_shown() -> None:
    changes = [{"set": 0, "value": "1"}]
    rules = rules_with(("from lib import f\nf(*a)\n", "from lib import g as f\nf(1)\n"), arguments=changes)
    (failed,) = failures(rules)
    assert "may be inside the unpacked `*`" in failed.text


def test_only_the_rules_of_the_file_take_part_and_the_imports_they_need_are_added() -> None:
    before = "import lib\nx = lib.f()\nx.cuda()\n"
    after = "import lib\nimport other\nx = other.g()\nx.cuda()\n"
    assert failures(rules_with((before, after), rename="other.g", safety="unsafe")) == []


def test_a_rule_is_tested_for_its_own_target() -> None:
    assert failures(rules_with(("import lib\nlib.f()\n", "import lib\nlib.g()\n"), target="agnostic")) == []


def test_a_source_that_does_not_parse_fails_with_its_error() -> None:
    (failed,) = failures(rules_with(("lib.f(", "lib.g(")))
    assert "is not valid Python" in failed.text
