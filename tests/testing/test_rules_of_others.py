"""The rule of another distribution runs in the room of its code, with the subject of that room."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import scaffolds

from jumar.base.rules import all_rules, documentation, rule_named
from jumar.base.rules import installed as door
from jumar.base.rules.installed import ROOMS, installed_modules

RULE = '''
"""{code} {name}.

## What it does
It finds one thing in every subject.
"""
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(code="{code}", name="{name}", summary="A rule.", severity=Severity.WARNING, doc=__doc__)


def find(subject):
    yield RULE.finding(f"Seen: {{type(subject).__name__}}.", action="Look.")
'''

Install = Callable[[str, dict[str, str]], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with rules in this process: its name, and code -> name of each rule."""
    groups = (door._RULES, door._CHECKS)

    def write(distribution: str, rules: dict[str, str], group: str = "jumar.rules") -> None:
        folder = tmp_path / distribution
        folder.mkdir()
        for code, name in rules.items():
            module = folder / f"{distribution}_{code.lower()}.py"
            module.write_text(RULE.format(code=code, name=name), "utf-8")
        entries = {code: f"{distribution}_{code.lower()}" for code in rules}
        scaffolds.metadata(folder, distribution, "1.0", {group: entries})
        monkeypatch.syspath_prepend(str(folder))
        for known in groups:
            known.forget()

    yield write
    for known in groups:
        known.forget()
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def test_the_first_digit_tells_the_room(install: Install) -> None:
    install("acme", {f"ACME{digit}01": f"rule-{digit}" for digit in ROOMS})
    assert {room: [module.RULE.code for module in installed_modules(room)] for room in ROOMS.values()} == {
        room: [f"ACME{digit}01"] for digit, room in ROOMS.items()
    }


def test_it_is_listed_and_explained(install: Install) -> None:
    install("acme", {"ACME201": "my-rule"})
    assert rule_named("acme201").name == rule_named("my-rule").name == "my-rule"
    assert "ACME201" in [rule.code for rule in all_rules()]
    assert documentation(rule_named("ACME201")).strip().startswith("ACME201 my-rule.")


@pytest.mark.parametrize(("code", "name"), [("JM101", "other"), ("ACME101", "torch-cuda-api")])
def test_a_code_or_name_of_jumars_is_refused(
    code: str, name: str, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("acme", {code: name})
    assert installed_modules("convert") == ()
    assert rule_named("JM101").name == "torch-cuda-api"
    assert "Jumar has a part of the name" in caplog.text


def test_two_distributions_with_one_code_are_both_refused(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("one", {"ACME401": "first"})
    install("two", {"ACME401": "second"})
    assert installed_modules("advise.bottlenecks") == ()
    assert "two 1.0 has a part of the name ACME401, too" in caplog.text


def test_a_check_of_the_doctor_needs_a_code_of_the_doctor(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    install("acme", {"ACME101": "no-check", "ACME801": "a-check"}, "jumar.doctor_checks")  # type: ignore[call-arg]
    assert [module.RULE.code for module in installed_modules("advise.doctor")] == ["ACME801"]
    assert "must be 8xx behind its letters; got ACME101" in caplog.text


PROGRAM = """
import json, sys
from pathlib import Path
import torch
from torch import nn
from jumar.advise.bottlenecks import advise
from jumar.advise.doctor import examine
from jumar.advise.doctor.machine.host import Host
from jumar.capture import record
from jumar.comparison import compare
from jumar.convert.assess import assess_source

folder = Path(sys.argv[1])
(folder / "a.py").write_text("import torch\\ntorch.add(1, 1)\\n")
for name in ("one", "two"):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    with record(str(folder / name), model=model):
        model(torch.randn(3, 4)).sum().backward()
found = {
    "assess": assess_source(folder / "a.py").findings,
    "comparison": compare(folder / "one", folder / "two").findings,
    "advise": advise(folder / "one").findings,
    "doctor": examine(Host()).findings,
}
own = {room: [one.message for one in findings if one.code[:4] == "ACME"] for room, findings in found.items()}
print(json.dumps(own))
"""


@pytest.mark.slow
def test_it_runs_in_assess_comparison_advise_and_doctor(tmp_path: Path) -> None:
    source = tmp_path / "acme" / "src"
    source.mkdir(parents=True)
    codes = ("ACME201", "ACME301", "ACME401", "ACME801")
    for code in codes:
        (source / f"{code.lower()}.py").write_text(RULE.format(code=code, name=f"rule-{code.lower()}"), "utf-8")
    scaffolds.metadata(source, "acme", "1.0", {"jumar.rules": {code: code.lower() for code in codes}})
    done = scaffolds.run(["-c", dedent(PROGRAM), str(tmp_path)], source.parent, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "assess": ["Seen: Assessed."],
        "comparison": ["Seen: Evidenced."],
        "advise": ["Seen: Run."],
        "doctor": ["Seen: Host."],
    }
