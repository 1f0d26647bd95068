"""What was chosen under an error budget is in the bank, for its weights, and given to who allows that error only."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lowering_models import Residual
from tune_builders import MACHINE, ONE_THREAD, gain, mm_task

from jumar.errors import UsageError
from jumar.tune import Bank
from jumar.tune.backend.built import fingerprint
from jumar.tune.backend.knowledge import Knowledge, forget, knowledge
from jumar.tune.bank import AskedPrecision, KnownPrecision
from jumar.tune.errors import BankError
from jumar.tune.graph.capture import graph_of_module
from jumar.tune.graph.captured import Captured
from jumar.tune.graph.data import load
from jumar.tune.lowering import Lowering
from jumar.tune.machine import this_machine
from jumar.tune.plan import Plan, Region
from jumar.tune.precision.front import Point
from jumar.tune.precision.job import PrecisionJob
from jumar.tune.precision.options import ERROR_BUDGET, PrecisionOptions, parse_error

PLAN = Plan(
    regions=(Region(nodes=(), engine="eager", version=torch.__version__),), lowering=Lowering(nodes={9: "bf16"})
)


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    (tmp_path / "bank").mkdir()
    return Bank.open(tmp_path / "bank")


def known(budget: float, error: float, ratio: float, **fields: Any) -> KnownPrecision:
    asked = AskedPrecision(**({"task": mm_task(), "machine": MACHINE, "weights": "w"} | fields), budget=budget)
    return KnownPrecision(
        asked=asked, error=error, plan=PLAN, gain=gain(ratio), updated="2026-01-01T00:00:00.000+00:00"
    )


def test_the_fastest_within_the_budget_is_found_whatever_budget_it_was_chosen_for(bank: Bank) -> None:
    for one in (known(1e-3, 8e-4, 1.2), known(1e-2, 9e-3, 1.8), known(1e-1, 6e-2, 2.5)):
        bank.keep_precision(one)
    asked = known(1e-2, 0, 1).asked
    assert bank.precision(asked) == known(1e-2, 9e-3, 1.8)
    assert bank.precision(replace(asked, budget=9.5e-3)) == known(1e-2, 9e-3, 1.8)
    assert bank.precision(replace(asked, budget=5e-4)) is None
    assert len(bank.precisions()) == 3


@pytest.mark.parametrize(
    "other", [{"task": mm_task(9)}, {"machine": ONE_THREAD}, {"weights": "other"}, {"metric": "other"}]
)
def test_another_graph_machine_weights_or_metric_has_none(bank: Bank, other: dict[str, Any]) -> None:
    bank.keep_precision(known(1e-2, 9e-3, 1.8))
    assert bank.precision(replace(known(1e-2, 0, 1).asked, **other)) is None


def test_what_is_chosen_again_for_the_same_budget_takes_the_place(bank: Bank) -> None:
    bank.keep_precision(known(1e-2, 9e-3, 1.8))
    bank.keep_precision(known(1e-2, 5e-3, 1.5))
    assert bank.precisions() == [known(1e-2, 5e-3, 1.5)]


def test_of_two_for_the_same_question_the_faster_stays_in_any_order(bank: Bank) -> None:
    faster, slower = known(1e-2, 9e-3, 1.8), known(1e-2, 5e-3, 1.5)
    bank.merge([faster, slower])
    assert bank.precisions() == [faster]


def test_a_choice_that_cannot_be_read_is_one_sentence(bank: Bank) -> None:
    bank.keep_precision(known(1e-2, 9e-3, 1.8))
    with sqlite3.connect(bank.name) as connection:
        connection.execute("UPDATE precisions SET point = '{}'")
    with pytest.raises(BankError, match=r"has damaged entries .*See which: jumar bank verify"):
        bank.precision(known(1e-2, 0, 1).asked)


def test_the_layer_beneath_answers_too_and_a_bank_without_the_table_has_none(tmp_path: Path, bank: Bank) -> None:
    bank.keep_precision(known(1e-2, 9e-3, 1.8))
    (tmp_path / "own").mkdir()
    own = Bank.open(tmp_path / "own", beneath=bank)
    assert own.precision(known(1e-2, 0, 1).asked) == known(1e-2, 9e-3, 1.8)
    own.close()
    with sqlite3.connect(next((tmp_path / "own").glob("*.sqlite3"))) as connection:
        connection.execute("DROP TABLE precisions")
    old = Bank.open(tmp_path / "own")
    assert old.precision(known(1e-2, 0, 1).asked) is None
    assert old.precisions() == []
    old.keep_precision(known(1e-2, 9e-3, 1.8))
    assert old.precisions() == [known(1e-2, 9e-3, 1.8)]


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    torch.manual_seed(0)
    return graph_of_module(Residual().eval(), (torch.randn(2, 3, 8, 8),), folder=tmp_path, name="net")


def chosen(captured: Captured, bank: Bank) -> None:
    """Let the job of precision write a point, as it does at the end of a search."""
    job = PrecisionJob(
        precision=PrecisionOptions(precision="auto", budget=1e-2), machine=replace(this_machine("cpu"), num_threads=1),
        options=None, measures=None, result=None, folder=Path(), bank=bank,  # type: ignore[arg-type]  # not looked at
    )  # fmt: skip
    job._keep(captured, Point(plan=PLAN, gain=gain(1.8), error=8e-3))


@pytest.fixture
def opened(bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def with_budget(budget: str) -> Knowledge | None:
        monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
        monkeypatch.setenv(ERROR_BUDGET, budget)
        forget()
        return knowledge("cpu")

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield with_budget
    torch.set_num_threads(before)
    forget()


def test_who_allows_the_error_gets_the_plan_and_nobody_else(captured: Captured, bank: Bank, opened) -> None:
    chosen(captured, bank)
    values = load(captured.data)
    weights = {place: values[place] for place in captured.graph.constants}
    allowing = opened("1%")
    assert allowing is not None
    assert allowing.plan(captured.graph, weights) == PLAN
    assert allowing.plan(captured.graph) is None
    for budget in ("", "1e-3"):
        strict = opened(budget)
        assert strict is not None
        assert strict.plan(captured.graph, weights) is None


def test_other_weights_of_the_same_model_get_no_plan_that_was_chosen_for_these(
    captured: Captured, bank: Bank, opened
) -> None:
    chosen(captured, bank)
    values = load(captured.data)
    weights = {place: values[place] + 1 for place in captured.graph.constants}
    allowing = opened("1e-2")
    assert allowing is not None
    assert allowing.plan(captured.graph, weights) is None
    assert fingerprint(weights) != fingerprint({place: values[place] for place in captured.graph.constants})


@pytest.mark.parametrize("text", ["much", "0", "-1%", "inf"])
def test_a_budget_that_is_none_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=ERROR_BUDGET):
        parse_error(text)


def test_a_budget_without_tuned_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print(1)\n")
    command = [sys.executable, "-m", "jumar", "run", "--budget", "1e-2", str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "add --tuned" in done.stderr
