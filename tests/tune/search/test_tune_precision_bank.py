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

from jumar.base.errors import UsageError
from jumar.tune import Bank, tune
from jumar.tune.artefact.loading import read_manifest
from jumar.tune.artefact.writing import freeze_captured
from jumar.tune.backend.knowledge import Knowledge, forget, knowledge
from jumar.tune.bank.exchange import export_lines, import_lines
from jumar.tune.bank.precisions import AskedPrecision, KnownPrecision
from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.capture.data import load
from jumar.tune.graph.steps import as_step
from jumar.tune.job.graphs import OF_A_PIECE, STEPS_KEEP, PrecisionJob
from jumar.tune.measure.measuring import Measurer
from jumar.tune.measure.options import ERROR_BUDGET, PrecisionOptions, TuneOptions, parse_error
from jumar.tune.model.errors import BankError, TuneError
from jumar.tune.model.machine import this_machine
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.built import fingerprint
from jumar.tune.plan.lowering.lowering import Lowering
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.precision.outcome import Lost, Point, PrecisionOutcome
from jumar.tune.search.precision.request.files import jumar_text
from jumar.tune.search.subgraph.outcome import GraphOutcome
from jumar.tune.search.tasks.source import graphs_source

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


def test_a_choice_in_a_precision_that_is_not_known_here_is_named_like_other_damage(bank: Bank) -> None:
    bank.keep_precision(known(1e-2, 9e-3, 1.8))
    with sqlite3.connect(bank.name) as connection:
        connection.execute("""UPDATE precisions SET point = replace(point, '"bf16"', '"fp4"')""")
    assert bank.precisions() == []
    (problem,) = bank.problems()
    assert "cannot be read: TuneError" in problem
    (line,) = export_lines([known(1e-2, 9e-3, 1.8)])
    with pytest.raises(BankError, match=r"kb\.json, line 1: .*'fp4' is none"):
        import_lines([line.replace('"bf16"', '"fp4"')], "kb.json")


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


POINT = Point(plan=PLAN, gain=gain(1.8), error=8e-3, lowering=PLAN.lowering)


def job_of(bank: Bank | None, folder: Path = Path(), *, precision: str = "auto", budget: float = 1e-2) -> PrecisionJob:
    machine = replace(this_machine("cpu"), num_threads=1)
    return PrecisionJob(
        precision=PrecisionOptions(precision=precision, budget=budget), machine=machine,
        options=TuneOptions(job_type=1), measures=Measurer(TuneOptions(), None, clock=lambda: 10.0, began=0.0),
        result=TuneResult(recording="net", recorded_device="cpu", machine=machine, min_gain=0.02),
        folder=folder, bank=bank,
    )  # fmt: skip


def chosen(captured: Captured, bank: Bank) -> None:
    """Let the job of precision write a point, as it does at the end of a search."""
    job_of(bank)._keep(captured, POINT)


def weights_of(captured: Captured) -> dict[int, torch.Tensor]:
    values = load(captured.data)
    return {place: values[place] for place in captured.graph.constants}


def tuned(job: PrecisionJob, captured: Captured, monkeypatch: pytest.MonkeyPatch, **found: Any) -> None:
    """Let a job tune a graph whose search ends with what is `found`."""

    def search(graph: Graph, data: str, *, outcome: PrecisionOutcome, **_: Any) -> None:
        for name, value in found.items():
            setattr(outcome, name, value)

    monkeypatch.setattr("jumar.tune.search.precision.search.tune_precision", search)
    job.tune(captured, GraphOutcome(name=captured.name, graph=captured.graph), None, lambda what: None)


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
    weights = weights_of(captured)
    allowing = opened("1%")
    assert allowing is not None
    assert allowing.plan(captured.graph, weights) == PLAN
    assert allowing.plan(captured.graph) is None
    for budget in ("", "1e-3"):
        strict = opened(budget)
        assert strict is not None
        assert strict.plan(captured.graph, weights) is None


def test_a_file_holds_the_plan_in_fewer_bits_for_who_allows_the_error_only(
    captured: Captured, bank: Bank, tmp_path: Path
) -> None:
    plan = replace(PLAN, lowering=Lowering(nodes={len(captured.graph.inputs): "bf16"}))
    job = job_of(bank)
    job._keep(captured, replace(POINT, plan=plan, lowering=plan.lowering))
    machine = job.machine
    freeze_captured(captured, tmp_path / "net.jumar", bank=bank, machine=machine, error_budget=1e-2)
    assert read_manifest(tmp_path / "net.jumar").plan == plan
    for budget in (None, 1e-3):
        with pytest.raises(TuneError, match="nothing to freeze"):
            freeze_captured(captured, tmp_path / "other.jumar", bank=bank, machine=machine, error_budget=budget)


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


def test_a_plan_of_another_version_of_its_engine_is_passed_over_for_the_next_best(
    captured: Captured, bank: Bank, opened
) -> None:
    stale = replace(PLAN, regions=(replace(PLAN.regions[0], version="0.1"),))
    own = replace(PLAN, lowering=Lowering())
    job_of(bank, budget=5e-3)._keep(captured, replace(POINT, plan=stale, gain=gain(2.5), error=4e-3))
    job = job_of(bank)
    job.bank.accept(
        captured.graph, job.machine, own.policy(), incumbent=(), gain=gain(1.2), min_gain=0.02, tried=()
    )  # fmt: skip
    weights = weights_of(captured)
    assert opened("1%").plan(captured.graph, weights) == own
    chosen(captured, bank)
    assert opened("1%").plan(captured.graph, weights) == PLAN


def test_what_was_chosen_before_an_interruption_is_kept(
    captured: Captured, bank: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(graph: Graph, data: str, *, outcome: PrecisionOutcome, **_: Any) -> None:
        outcome.chosen = POINT
        raise KeyboardInterrupt

    monkeypatch.setattr("jumar.tune.search.precision.search.tune_precision", interrupted)
    job = job_of(bank, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        job.tune(captured, GraphOutcome(name=captured.name, graph=captured.graph), None, lambda what: None)
    (outcome,) = job.result.precisions
    assert outcome.stopped_by == "Ctrl-C"
    assert [one.plan for one in bank.precisions()] == [PLAN]
    assert all(path.is_file() for path in outcome.files)
    assert len(outcome.files) == 3


def test_of_a_piece_it_is_said_that_the_error_is_not_the_model_s(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = job_of(None, tmp_path)
    for is_piece in (False, True):
        tuned(job, replace(captured, is_piece=is_piece), monkeypatch, chosen=POINT)
    assert [one.notes for one in job.result.precisions] == [[], [OF_A_PIECE]]


def test_a_metric_is_refused_for_a_model_in_pieces(captured: Captured, bank: Bank, tmp_path: Path) -> None:
    source = graphs_source("net", [replace(captured, is_piece=True)])
    options = PrecisionOptions(precision="auto", metric="builtins:max")
    with pytest.raises(UsageError, match="tuned in pieces"):
        tune(source, bank=bank, result_folder=tmp_path, options=TuneOptions(job_type=1), precision=options)


BUSY = Lost(plan="p", precision="int8", status="busy", detail="")


@pytest.mark.parametrize(
    ("found", "is_left"),
    [
        ({"points": [POINT]}, False),
        ({"points": [POINT], "stopped_by": "--trials"}, True),
        ({"points": [POINT], "lost": [BUSY]}, True),
        ({"points": [POINT], "metric_failed": "it raised"}, True),
        ({}, True),
    ],
)
def test_a_search_to_its_end_that_chooses_nothing_removes_what_was_chosen_before(
    captured: Captured, bank: Bank, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], is_left: bool
) -> None:
    chosen(captured, bank)
    tuned(job_of(bank), captured, monkeypatch, **found)
    assert bool(bank.precisions()) == is_left


def test_a_file_whose_list_is_not_chosen_says_nothing_of_what_the_search_chose(
    captured: Captured, bank: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen(captured, bank)
    (tmp_path / "net.ini").write_text("Conv2D=high_performance\n")
    tuned(job_of(bank, precision=str(tmp_path / "net.ini")), captured, monkeypatch, points=[POINT])
    assert bank.precisions()


def test_neither_the_file_that_was_given_nor_another_graph_s_is_written_over(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other_precision.json").write_text(given := jumar_text(captured.graph, POINT))
    job = job_of(None, tmp_path, precision=str(tmp_path / "other_precision.json"))
    for name in ("net", "net", "other"):
        tuned(job, replace(captured, name=name), monkeypatch, chosen=POINT)
    stems = ["net", f"net_{captured.graph.key[:8]}", f"other_{captured.graph.key[:8]}"]
    written = [path.name for one in job.result.precisions for path in one.files if path.suffix == ".ini"]
    assert written == [f"{stem}_op_precision.ini" for stem in stems]
    assert (tmp_path / "other_precision.json").read_text() == given


def test_a_training_step_keeps_its_precision_and_all_of_its_time(
    captured: Captured, bank: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step = replace(captured, graph=as_step(captured.graph, captured.graph.constants[:1]))
    job = job_of(bank, tmp_path)
    assert job.first_deadline_s(captured.graph, 110.0) == 60.0
    assert job.first_deadline_s(step.graph, 110.0) == 110.0
    for _ in range(2):
        tuned(job, step, monkeypatch, chosen=POINT)
    assert job.result.precisions == []
    assert job.result.notes == [STEPS_KEEP]


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
