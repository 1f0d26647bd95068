"""The pages of the rules about files tell the truth."""

from __future__ import annotations

import re

import pytest
from convert_cases import rules_in
from file_cases import outcome_of_file

from jumar.base.rules import HEADINGS, Rule

NAMES = {
    "JM120": "a.sh", "JM121": "a.sh", "JM122": "a.sh", "JM123": "a.yml", "JM124": "Dockerfile",
    "JM125": "requirements.txt",
    "JM126": "a.cpp", "JM127": "README.md", "JM128": "a.ipynb", "JM129": "a.yml",
}  # fmt: skip
RULES = rules_in("jumar.convert.rules.files")


def block(rule: Rule, heading: str) -> str:
    found = re.search(rf"^## {heading}\n```\w+\n(.*?)^```$", rule.doc, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found.group(1)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_example_leads_to_the_finding_and_safe_edits_to_what_is_promised(rule: Rule) -> None:
    assert [line[3:] for line in rule.doc.splitlines() if line.startswith("## ")] == list(HEADINGS)
    example, promised = block(rule, "Example"), block(rule, "Use instead")
    name = NAMES[rule.code]
    text = f"```bash\n{example}```\n" if name == "README.md" else example
    found = outcome_of_file(text, name, unsafe=rule.safety == "unsafe")
    assert rule.code in {finding.code for finding in found.findings}
    if rule.safety is not None:
        assert found.after.decode() == promised
    else:
        assert not found.changed


def test_codes_are_those_of_files() -> None:
    assert [rule.code for rule in RULES] == [f"JM{number}" for number in range(120, 130)]
