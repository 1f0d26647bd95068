"""Findings and rules: values that round-trip, a registry that refuses twins."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.findings import Edit, Finding, Location, Severity, worst
from jumar.base.rules import Registry, Rule

texts = st.text(max_size=20)
numbers = st.none() | st.integers(1, 10**6)
locations = st.builds(Location, path=st.none() | texts, line=numbers, operator=st.none() | texts, step=numbers)
edits = st.builds(Edit, path=texts, start_line=st.integers(1), end_line=st.integers(1), before=texts, after=texts)
findings = st.builds(
    Finding,
    code=st.just("JM101"),
    severity=st.sampled_from(Severity),
    message=texts,
    where=locations,
    evidence=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts | st.lists(st.integers())),
    edit=st.none() | edits,
)


@given(findings)
def test_a_finding_survives_json(finding: Finding) -> None:
    assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


def test_a_location_reads_from_file_to_run() -> None:
    where = Location(path="train.py", line=4, module_path="fc1", operator="aten::addmm", step=2)
    assert str(where) == "train.py:4 · fc1 aten::addmm step 2"


def test_the_worst_of_nothing_is_nothing() -> None:
    assert worst([]) is None


def rule(code: str = "JM101", name: str = "a-pattern") -> Rule:
    return Rule(code=code, name=name, summary="", severity=Severity.WARNING, doc="")


def test_a_rule_is_found_by_code_and_by_name() -> None:
    registry = Registry([rule()])
    assert registry.find("jm101") is registry.find("a-pattern") is not None


@pytest.mark.parametrize("twin", [rule(name="other"), rule(code="JM102")])
def test_two_rules_share_neither_code_nor_name(twin: Rule) -> None:
    with pytest.raises(ValueError, match="registered twice"):
        Registry([rule(), twin])


def test_a_code_has_a_fixed_form() -> None:
    with pytest.raises(ValueError, match="must look like JM101"):
        rule(code="X1")
