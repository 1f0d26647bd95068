"""`jumar bank` and plans in fewer bits, chosen under an error budget."""

from __future__ import annotations

import json
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))
from tune_builders import MACHINE, gain, mm_task

from jumar.cli.main import main
from jumar.tune import Bank, this_machine
from jumar.tune.bank.precisions import AskedPrecision, KnownPrecision
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.lowering.lowering import Lowering

PLAN = Plan(regions=(Region(nodes=(), engine="eager", version="2"),), lowering=Lowering(nodes={2: "bf16"}))


def chosen(ratio: float = 1.8, budget: float = 1e-2, error: float = 8e-3, **asked: Any) -> KnownPrecision:
    question = {"task": mm_task(), "machine": this_machine(), "weights": "w", **asked}
    return KnownPrecision(
        asked=AskedPrecision(**question, budget=budget), error=error, plan=PLAN, gain=gain(ratio),
        updated="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip


def fill(folder: Path, *known: KnownPrecision) -> None:
    folder.mkdir(exist_ok=True)
    bank = Bank.open(folder)
    for one in known:
        bank.keep_precision(one)
    bank.close()


def held(folder: Path) -> list[KnownPrecision]:
    bank = Bank.open(folder)
    found = bank.precisions()
    bank.close()
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
    fill(tmp_path / "bank", chosen(), chosen(2.5, 1e-1, 6e-2))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["bank", *arguments]) == code
    return capsys.readouterr().out


def test_they_are_listed_and_shown_with_their_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(capsys, "list")
    assert listed.startswith("0 policies and 0 without a faster one, 2 plans in fewer bits in ")
    key = mm_task().key[:12]
    assert listed.count(key) == 2
    shown = said(capsys, "show", key)
    assert "Precision, error 0.008 of 0.01 on" in shown
    assert "bf16" in shown
    assert [one["budget"] for one in json.loads(said(capsys, "list", "--json"))["precisions"]] == [0.01, 0.1]


def test_merging_keeps_the_faster_one_for_each_question(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder / "theirs", chosen(1.5), chosen(3.0, 1e-1, 7e-2), chosen(1.4, weights="others"))
    answer = json.loads(said(capsys, "merge", "theirs", "--json"))
    assert [answer[f"num_{what}"] for what in ("added", "better", "kept", "built_in")] == [1, 1, 1, 0]
    assert {one.gain.ratio_low for one in held(folder / "bank")} == {gain(ratio).ratio_low for ratio in (1.8, 3.0, 1.4)}


def test_another_device_s_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder / "theirs", chosen(machine=MACHINE))
    assert main(["bank", "merge", "theirs"]) == 2
    assert "must hold policies of this bank's devices only" in capsys.readouterr().err
    assert json.loads(said(capsys, "merge", "theirs", "--skip-others", "--json"))["num_added"] == 0


def test_what_the_built_in_layer_has_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Bank.open(folder / "bank")
    above = Bank.open(_made(folder / "above"), beneath=own)
    counts = above.merge([chosen(1.5), chosen(1.9)])
    assert (counts.num_built_in, counts.num_added) == (1, 1)


def test_export_and_import_bring_them_across(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "export", "-o", "bank.json")
    before = held(folder / "bank")
    monkeypatch.setenv("TUNE_BANK_PATH", str(_made(folder / "other")))
    assert json.loads(said(capsys, "import", "bank.json", "--json"))["num_added"] == 2
    assert held(folder / "other") == before


def test_pruning_removes_those_that_are_meant_and_keeps_the_graph_of_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = chosen(machine=replace(this_machine(), torch="2.12.0"), budget=1e-3, error=1e-4)
    fill(folder / "bank", old)
    assert "1 entry of" in said(capsys, "prune", "--other-versions", "--dry-run")
    assert len(held(folder / "bank")) == 3
    said(capsys, "prune", "--other-versions")
    assert [one.asked.budget for one in held(folder / "bank")] == [1e-2, 1e-1]
    assert said(capsys, "verify").rstrip().endswith("is whole.")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("UPDATE precisions SET error = 5", "has the error 5, above its budget of 0.01"),
        ("UPDATE precisions SET point = '{}'", "cannot be read: KeyError"),
        ("DELETE FROM tasks", "lacks its graph"),
        ("DELETE FROM machines", "lacks its machine"),
    ],
)
def test_verify_names_what_is_wrong_with_one(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: str, sentence: str
) -> None:
    with sqlite3.connect(next((folder / "bank").glob("*.sqlite3"))) as connection:
        connection.execute(damage)
    report = said(capsys, "verify", code=1)
    assert sentence in report
    assert "has 2 problems" in report


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("damage", "num_problems"),
    [
        ("UPDATE precisions SET point = '{' WHERE id = 1", 1),
        ("UPDATE tasks SET spec = '{'", 2),
        ("UPDATE machines SET properties = '[1]'", 2),
    ],
)
def test_what_is_damaged_is_named_by_verify(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: str, num_problems: int
) -> None:
    with sqlite3.connect(folder / "bank" / "jumar_tune_bank.sqlite3") as connection:
        connection.execute(damage)
    told = said(capsys, "verify", code=1)
    assert told.count(f"Precision of {mm_task().key[:12]} cannot be read: ") == num_problems
    assert len(held(folder / "bank")) == 2 - num_problems
