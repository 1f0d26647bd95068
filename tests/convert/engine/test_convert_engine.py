"""One source in, one outcome out."""

from __future__ import annotations

import ast

import pytest
from convert_cases import GROUPS, all_rules, converted, outcome, rules_in

from jumar.base.errors import UsageError
from jumar.base.findings import Severity
from jumar.base.rules import HEADINGS, Registry
from jumar.convert import ConvertOptions, Failure, Skip, convert_source
from jumar.convert.rules.order import ORDER, rules_by_code
from jumar.convert.rules.tensorflow.program.order import ORDER as TENSORFLOW

RULES = all_rules()


def block(doc: str, heading: str) -> str:
    """The code under a heading of a rule's page."""
    return doc.split(f"## {heading}\n```python\n")[1].split("```", maxsplit=1)[0]


def test_a_source_without_cuda_is_skipped_unchanged() -> None:
    result = convert_source("import torch\nx = torch.zeros(3)\n", "a.py")
    assert isinstance(result, Skip)
    assert (result.before, result.findings, result.changed) == (result.after, (), False)


@pytest.mark.parametrize(
    "source", ["x = (\n", "import torch\nprint 'cuda'\n", "{{ cookiecutter.cuda }} = \n", "x = 'a\n"]
)
def test_a_source_that_is_not_python_fails_with_one_sentence_and_one_finding(source: str) -> None:
    result = convert_source(source, "a.py")
    assert isinstance(result, Failure)
    assert result.after == result.before == source.encode()
    assert result.error.startswith("a.py, line ")
    (finding,) = result.findings
    assert (finding.code, finding.severity) == ("JM115", Severity.ERROR)
    assert finding.where.line is not None


def test_a_finding_carries_the_whole_lines_of_its_edit() -> None:
    (finding,) = [
        f for f in outcome("import torch\nif x:\n    torch.cuda.synchronize()  # now\n").findings if f.code == "JM101"
    ]
    assert finding.edit is not None
    assert (finding.edit.start_line, finding.edit.end_line, finding.edit.safety) == (3, 3, "safe")
    assert finding.edit.before == "    torch.cuda.synchronize()  # now\n"
    assert finding.edit.after == "    torch.npu.synchronize()  # now\n"
    assert (finding.where.line, finding.where.column, finding.evidence["applied"]) == (3, 5, True)


def test_findings_come_in_the_order_of_the_lines() -> None:
    lines = [f.where.line for f in outcome("import torch\nx.cuda()\nd = 'cuda:0'\ntorch.cuda.x\ny.cuda()\n").findings]
    assert lines == sorted(line for line in lines if line is not None)


def test_a_second_run_changes_nothing() -> None:
    first = outcome(
        "from torch import cuda\nfrom torch.cuda import Event, nvtx\ncuda.amp.autocast()\nx.cuda('cuda:1')\n"
    )
    second = convert_source(first.after, "a.py")
    assert second.after == first.after


def test_nested_edits_compose() -> None:
    result = outcome("import torch\nx = torch.zeros(1).cuda(torch.device(f'cuda:{torch.cuda.current_device()}'))\n")
    assert b"torch.zeros(1).npu(torch.device(f'npu:{torch.npu.current_device()}'))" in result.after


def test_the_number_and_order_of_evaluations_stay() -> None:
    """The converted calls see the same arguments in the same order as the original ones."""
    source = (
        "from torch.cuda.amp import autocast\n"
        "with autocast(log(1), log(2), cache_enabled=log(3)): pass\n"
        "tensor.cuda(log(4), non_blocking=log(5))\n"
        "tensor.to(f'cuda:{log(6)}').cuda(log(7))\n"
    )

    def calls(text: str) -> list[int]:
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        logs = [node for node in found if isinstance(node.func, ast.Name) and node.func.id == "log"]
        logs.sort(key=lambda node: (node.lineno, node.col_offset))
        return [node.args[0].value for node in logs if isinstance(node.args[0], ast.Constant)]

    after = outcome(source).after.decode()
    assert calls(after) == calls(source) == [1, 2, 3, 4, 5, 6, 7]


def test_an_unknown_target_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="must be one of npu"):
        ConvertOptions(target="tpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_documented_under_the_headings(rule) -> None:  # type: ignore[no-untyped-def]
    headings = [line.removeprefix("## ") for line in rule.doc.splitlines() if line.startswith("## ")]
    assert headings == list(HEADINGS)
    assert rule.code.startswith(("JM1", "JM6"))


IMPORTS = (
    "import torch\nimport apex, triton\nimport torch.distributed as dist\nfrom flash_attn import flash_attn_func\n"
    "import lightning.pytorch as pl\n"
)
"""What the pages' examples take for granted."""

NEEDS_MORE = {step.code for step in ORDER if step.module.startswith("distributed.")} | {"JM195"}
"""Rules that speak only of a script named on the command line, or of a user's own rules; they have their own tests."""


@pytest.mark.parametrize(
    "rule", [step.load().RULE for step in ORDER if step.code not in NEEDS_MORE], ids=lambda rule: rule.code
)
def test_the_example_of_every_rule_leads_to_its_findings(rule) -> None:  # type: ignore[no-untyped-def]
    example, asked_for = block(rule.doc, "Example"), frozenset({rule.code})
    plain = ConvertOptions(enable=asked_for, release="2.13")
    more = ConvertOptions(enable=asked_for, release="2.13", similar=True, device_from_environment=True)
    sources = ("import torch\n" + example, IMPORTS + example)
    results = [convert_source(source, "a.py", options) for source in sources for options in (plain, more)]
    assert rule.code in {finding.code for result in results for finding in result.findings}


@pytest.mark.parametrize("code", ["JM101", "JM102", "JM103", "JM104", "JM105", "JM106", "JM107", "JM108", "JM116"])
def test_the_example_of_a_safe_rule_becomes_what_its_page_promises(code: str) -> None:
    rule = Registry(RULES).find(code)
    assert rule is not None
    example, promised = block(rule.doc, "Example"), block(rule.doc, "Use instead")
    if code == "JM107":
        assert convert_source(example, "a.py").after.decode() == promised
    else:
        assert converted("import torch\n" + example) == "import torch\n" + promised


def test_codes_and_names_are_unique_and_every_rule_is_reachable() -> None:
    assert len(Registry(RULES)) == len(RULES) == len({rule.code for rule in RULES})
    assert {step.code for step in ORDER} < {rule.code for rule in RULES}
    assert rules_by_code().keys() == {rule.code for rule in RULES}


def test_the_order_names_every_rule_that_finds_something_in_a_source_once() -> None:
    finding = [f"jumar.convert.rules.{group}" for group in GROUPS if group not in ("files", "tree")]
    steps = [*ORDER, *TENSORFLOW]
    assert sorted(step.code for step in steps) == sorted(rule.code for group in finding for rule in rules_in(group))
    assert all(step.load().RULE.code == step.code for step in steps)
