from __future__ import annotations

import pytest

from jumar.assess import Row
from jumar.assess.rules import RULES, findings_of_recording, findings_of_source
from jumar.assess.rules.places import MAX_PLACES, shown
from jumar.device.support import SupportTables
from jumar.findings import Location
from jumar.rules import HEADINGS, Registry, Rule


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
    assert findings_of_source([api], tables) + findings_of_recording([operator], tables) == ()


def test_places_beyond_the_limit_are_counted() -> None:
    places = [Location(path="a.py", line=line) for line in range(1, MAX_PLACES + 4)]
    assert shown(places)[-1] == "and 3 more"


def test_the_fallback_that_takes_most_time_comes_first() -> None:
    rows = [
        Row(name=f"aten::op{i}", kind="operator", status="fallback", num_uses=1, share=share)
        for i, share in enumerate((0.1, 0.6, 0.3))
    ]
    findings = findings_of_recording(rows, SupportTables.load("Ascend910B1"))
    assert [finding.evidence["name"] for finding in findings] == ["aten::op1", "aten::op2", "aten::op0"]
