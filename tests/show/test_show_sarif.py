"""SARIF 2.1.0: what its schema asks for, and what a reader of the log needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jumar.base.findings import Edit, Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.show.blocks.documents import json_text
from jumar.show.sarif import sarif_document

DOC = "\n\n".join(
    f"## {heading}\nText."
    for heading in ("What it does", "Why it matters", "Example", "Use instead", "Fix safety", "References")
)
RULES = [
    Rule(
        code="JM101", name="torch-cuda-api", summary="A name is used.", severity=Severity.ERROR, doc=DOC, safety="safe"
    ),
    Rule(code="JM112", name="load-it", summary="Loaded.", severity=Severity.WARNING, doc=DOC),
    Rule(code="JM900", name="not-named", summary="Never.", severity=Severity.WARNING, doc=DOC),
]
WHERE = Location(path="src/a b.py", line=3, column=5, end_line=4)


def finding(code: str = "JM101", severity: Severity = Severity.ERROR, **fields: Any) -> Finding:
    return Finding(code=code, severity=severity, message="It is used.", **{"where": WHERE, **fields})


def run_of(*findings: Finding, **options: Any) -> dict[str, Any]:
    document = sarif_document(findings, RULES, **options)
    assert json.loads(json_text(document)) == document
    assert (document["version"], len(document["runs"])) == ("2.1.0", 1)
    run: dict[str, Any] = document["runs"][0]
    return run


def result_of(*findings: Finding, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = run_of(*findings, **options)["results"][0]
    return result


def test_only_the_rules_that_findings_name_are_listed_with_their_pages() -> None:
    run = run_of(finding("JM112"), finding())
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["JM101", "JM112"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["JM112", "JM101"]
    assert rules[0]["name"] == "TorchCudaApi"
    assert rules[0]["help"]["markdown"].startswith("## What it does")
    assert rules[0]["defaultConfiguration"]["level"] == "error"


@pytest.mark.parametrize(
    ("severity", "kind", "level"),
    [
        (Severity.ERROR, None, "error"),
        (Severity.WARNING, None, "warning"),
        (Severity.ADVICE, None, "note"),
        (Severity.INFO, "informational", "none"),
    ],
)
def test_a_severity_is_a_level_and_what_is_only_worth_knowing_is_no_failure(
    severity: Severity, kind: str | None, level: str
) -> None:
    result = result_of(finding(severity=severity))
    assert (result.get("kind"), result["level"]) == (kind, level)


def test_a_place_is_a_region_of_a_file_below_the_root(tmp_path: Path) -> None:
    run = run_of(finding(), root=tmp_path)
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "src/a%20b.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 3, "startColumn": 5, "endLine": 4}
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{tmp_path.resolve().as_uri()}/"
    assert run["columnKind"] == "unicodeCodePoints"


def test_a_finding_of_a_run_has_no_place_in_a_file() -> None:
    result = result_of(finding(where=Location(module_path="layer1", step=3)))
    assert "locations" not in result


def test_a_file_name_that_is_no_utf8_is_kept_as_bytes() -> None:
    result = result_of(finding(where=Location(path="a\udcff.py")))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%FF.py"


@pytest.mark.parametrize(
    ("before", "region"),
    [
        ("x.cuda()\n", {"startLine": 3, "startColumn": 1, "endLine": 4, "endColumn": 1}),
        ("x.cuda()", {"startLine": 3, "startColumn": 1, "endLine": 3, "endColumn": 9}),
    ],
)
def test_an_edit_is_a_fix_that_replaces_its_lines(before: str, region: dict[str, int]) -> None:
    edit = Edit(path="a.py", start_line=3, end_line=3, before=before, after=before.replace("cuda", "npu"))
    (fix,) = result_of(finding(edit=edit, action="Do it."))["fixes"]
    assert fix["description"]["text"] == "Do it. (safe)"
    (change,) = fix["artifactChanges"]
    assert change["replacements"] == [{"deletedRegion": region, "insertedContent": {"text": edit.after}}]


def fingerprint(*findings: Finding, line: str | None = None) -> list[str]:
    run = run_of(*findings, line_of=lambda path, number: line)
    return [result["partialFingerprints"]["jumarUse/v1"] for result in run["results"]]


def test_a_fingerprint_stays_when_lines_move_and_tells_equal_lines_apart() -> None:
    moved = finding(where=Location(path="src/a b.py", line=30))
    assert fingerprint(finding(), line="  x.cuda()") == fingerprint(moved, line="x.cuda()")
    assert fingerprint(finding(), line="x.cuda()") != fingerprint(finding(), line="y.cuda()")
    first, second = fingerprint(finding(), moved, line="x.cuda()")
    assert first != second


def test_the_message_says_what_to_do_and_evidence_is_kept() -> None:
    result = result_of(finding(action="Remove it.", evidence={"ratio": float("nan")}))
    assert result["message"]["text"] == "It is used. Remove it."
    assert result["properties"]["evidence"] == {"ratio": "NaN"}


def test_a_finding_of_an_unknown_rule_is_a_defect() -> None:
    with pytest.raises(KeyError):
        sarif_document([finding("JM555")], RULES)
