"""`RoomRuleContract` on rules of three rooms, as another distribution would test its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jumar.base.findings import Finding, Severity
from jumar.base.rules import HEADINGS, Rule
from jumar.testing import RoomRuleContract

STORED = Path(__file__).parents[1] / "recording" / "assets"


def rule(code: str, sees: Callable[[Any], bool]) -> Any:
    """A module of a rule that has one finding where `sees` is true of the subject."""
    headings = "\n".join(f"## {heading}\nA text.\n" for heading in HEADINGS)
    known = Rule(code=code, name="a-pattern", summary="A pattern.", severity=Severity.WARNING, doc=headings)

    def find(subject: Any) -> Iterator[Finding]:
        if sees(subject):
            yield known.finding("The pattern is there.", action="Take it out.")

    return SimpleNamespace(RULE=known, find=find)


class TestAssessment(RoomRuleContract):
    rule = rule("ACME201", lambda subject: any(row.name == "torch.add" for row in subject.rows))

    @pytest.fixture(autouse=True)
    def _scripts(self, tmp_path: Path) -> None:
        for name, call in (("bad", "torch.add(1, 1)"), ("good", "torch.sub(1, 1)")):
            (tmp_path / f"{name}.py").write_text(f"import torch\n{call}\n")
        self.bad, self.good = [tmp_path / "bad.py"], [tmp_path / "good.py"]


class TestComparison(RoomRuleContract):
    rule = rule("ACME301", lambda subject: subject.reference.path.name == "version-1")

    @pytest.fixture(autouse=True)
    def _recordings(self, tmp_path: Path) -> None:
        shutil.copytree(STORED / "version-2", tmp_path / "same")
        self.bad = [(STORED / "version-1", STORED / "version-2")]
        self.good = [(STORED / "version-2", tmp_path / "same")]


class TestBottlenecks(RoomRuleContract):
    rule = rule("ACME401", lambda run: sum(1 for _ in run.steps) > 0)
    bad = (STORED / "version-2",)

    @pytest.fixture(autouse=True)
    def _empty(self, tmp_path: Path) -> None:
        shutil.copytree(STORED / "version-2", tmp_path / "empty")
        shutil.rmtree(tmp_path / "empty" / "steps")
        self.good = [tmp_path / "empty"]
