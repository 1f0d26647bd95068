from __future__ import annotations

import importlib
import pkgutil

import pytest

from jumar.base.findings import Location
from jumar.base.rules import HEADINGS, Registry, Rule
from jumar.convert.assess import Row, rules
from jumar.convert.assess.rules import OF_RECORDING, OF_SOURCE, findings
from jumar.convert.assess.subject import MAX_PLACES, Assessed, shown
from jumar.soc.support import SupportTables

RULES = [
    importlib.import_module(f"{rules.__name__}.{found.name}").RULE for found in pkgutil.iter_modules(rules.__path__)
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_documented_under_the_headings(rule: Rule) -> None:
    positions = [rule.doc.index(f"\n## {heading}\n") for heading in HEADINGS]
    assert positions == sorted(positions)


def test_codes_are_of_this_room_and_unique() -> None:
    assert [rule.code[:3] for rule in Registry(RULES)] == ["JM2"] * len(RULES)


@pytest.mark.parametrize("status", ["native", "decomposed", "host"])
def test_what_works_makes_no_finding(status: str) -> None:
    tables = SupportTables.load("Ascend910B1")
    api = Row(name="torch.add", kind="api", status=status, num_uses=1)  # type: ignore[arg-type]
    operator = Row(name="aten::add.Tensor", kind="operator", status=status, num_uses=1)  # type: ignore[arg-type]
    assert findings(OF_SOURCE, Assessed([api], tables)) + findings(OF_RECORDING, Assessed([operator], tables)) == ()


def test_places_beyond_the_limit_are_counted() -> None:
    places = [Location(path="a.py", line=line) for line in range(1, MAX_PLACES + 4)]
    assert shown(places)[-1] == "and 3 more"


def test_the_fallback_that_takes_most_time_comes_first() -> None:
    rows = [
        Row(name=f"aten::op{i}", kind="operator", status="fallback", num_uses=1, share=share)
        for i, share in enumerate((0.1, 0.6, 0.3))
    ]
    found = findings(OF_RECORDING, Assessed(rows, SupportTables.load("Ascend910B1")))
    assert [finding.evidence["name"] for finding in found] == ["aten::op1", "aten::op2", "aten::op0"]
