"""The index of rules is fresh and complete, and listing rules imports no rule and no room."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.rules import HEADINGS, Rule, all_rules, documentation
from jumar.base.rules.index import _modules, source_of

ROOT = Path(__file__).parents[2]


def test_the_index_is_fresh() -> None:
    script = ROOT / "scripts" / "build_rule_index.py"
    done = subprocess.run([sys.executable, script, "--check"], check=False)
    assert done.returncode == 0, "run scripts/build_rule_index.py"


@pytest.mark.parametrize("rule", list(all_rules()), ids=lambda rule: rule.code)
def test_the_index_says_what_the_rules_module_says(rule: Rule) -> None:
    module = importlib.import_module(_modules()[rule.code])
    own = module.RULE
    names = ("code", "name", "summary", "severity", "safety", "lifecycle", "opt_in")
    assert [getattr(rule, name) for name in names] == [getattr(own, name) for name in names]
    assert documentation(rule) == own.doc


@pytest.mark.parametrize("rule", list(all_rules()), ids=lambda rule: rule.code)
def test_a_rule_is_documented_under_the_fixed_headings(rule: Rule) -> None:
    headings = [line[3:] for line in documentation(rule).splitlines() if line.startswith("## ")]
    assert tuple(headings) == HEADINGS
    assert rule.summary.endswith(".")


def test_every_rule_has_a_source_file() -> None:
    assert all(source_of(module).is_file() for module in _modules().values())


def test_explaining_a_rule_imports_no_room() -> None:
    code = (
        "import sys; from jumar.cli.main import main; main(['rule', 'JM101']); "
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('jumar.')}; "
        "sys.stderr.write(' '.join(sorted(rooms | ({'torch', 'libcst', 'numpy'} & set(sys.modules)))))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set(done.stderr.split()) <= {"base", "show", "cli", "soc"}
