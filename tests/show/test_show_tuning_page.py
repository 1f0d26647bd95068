"""The page of a tuning run says what is faster, how sure, where the time went, and why the rest was not taken."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tune"))
from tune_builders import MACHINE, gain, measured, mm_task

from jumar.show import page_json, render_html
from jumar.show.blocks.page import BarChart, KeyValues, LineChart, Table
from jumar.show.tuning.page import tuning_page
from jumar.show.tuning.search import best_so_far, why_not
from jumar.tune.bank.entry import Tried
from jumar.tune.measure.conditions.preconditions import Surroundings, conditions_of
from jumar.tune.measure.conditions.rules.device_shared import RULE as DEVICE_SHARED
from jumar.tune.measure.conditions.settings import TuneEnvironment
from jumar.tune.measure.measuring import Measurement
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.machine import ESTIMATE, Machine
from jumar.tune.model.task import Policy
from jumar.tune.plan import Plan, Region
from jumar.tune.search.outcome import SlotOutcome, TaskOutcome, TuneResult
from jumar.tune.search.tasks.extract import NotTuned, TaskUse

ESTIMATED = replace(MACHINE, device="npu", capability=ESTIMATE)


def policy(provider: str) -> Policy:
    return Policy(kind="Impl", provider=provider)


def operator(name: str, ratio: float) -> TaskOutcome:
    tried = (
        Tried(policy=policy("fast"), outcome=measured(ratio)),
        Tried(policy=policy("even"), outcome=measured(1.0)),
        Tried(policy=policy("bad"), outcome=Outcome(status="died", phase="candidate", detail="SIGSEGV")),
    )
    slot = SlotOutcome(kind="Impl", action="add", policy=policy("fast"), gain=gain(ratio), tried=tried)
    return TaskOutcome(use=TaskUse(task=mm_task(), name=name, module_paths=[name]), slots=[slot])


def measurement(at_s: float, after_us: float | None, **fields) -> Measurement:
    known = {
        "name": "fc", "candidate": "fast", "provider": "fast", "role": "screening", "took_s": 1.0, "at_s": at_s,
        "status": "measured" if after_us else "died", "before_us": 100.0 if after_us else None, "after_us": after_us,
    }  # fmt: skip
    return Measurement(**(known | fields))


def run(**fields) -> TuneResult:
    known = {"recording": "r", "recorded_device": "cpu", "machine": MACHINE, "min_gain": 0.02, "wall_s": 10.0}
    return TuneResult(**(known | fields))


def blocks(page, kind):
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def test_operators_are_shown_with_their_intervals_the_greatest_gain_first():
    page = tuning_page(run(tasks=[operator("a", 1.2), operator("b", 1.5)]))
    rows = blocks(page, Table)[0].rows
    assert [row[0] for row in rows] == ["b", "a"]
    assert rows[0][4] == pytest.approx(50, abs=0.1)
    low, high = map(float, rows[0][5].split(" to "))
    assert low <= 50 <= high


@pytest.mark.parametrize(("machine", "said"), [(MACHINE, "Measured on"), (ESTIMATED, "Estimated for")])
def test_the_page_says_whether_times_are_estimates(machine: Machine, said: str):
    items = [item for one in blocks(tuning_page(run(machine=machine)), KeyValues) for item in one.items]
    assert (said, str(machine)) in items


def test_every_candidate_is_listed_with_the_reason_in_numbers():
    page = tuning_page(run(tasks=[operator("a", 1.2)]))
    rows = [row for table in blocks(page, Table) for row in table.rows if row[-1] == "the best before"]
    assert [row[2] for row in rows] == [
        "taken", "its interval begins at -0.0 %, the gate is 2 %", "died: SIGSEGV",
    ]  # fmt: skip


def test_what_was_faster_and_not_taken_says_so_and_what_was_slower_too():
    assert why_not(measured(1.5), 0.02).startswith("faster; another was faster still")
    assert why_not(measured(0.5), 0.02) == "slower"


def test_the_search_over_time_never_goes_back_and_starts_from_the_default():
    history = [measurement(1, 100.0), measurement(2, 50.0), measurement(3, None), measurement(4, 80.0)]
    assert best_so_far(history) == [(1, 1.0), (2, 2.0), (4, 2.0)]
    page = tuning_page(run(history=history))
    (chart,) = blocks(page, LineChart)
    assert [(one.name, list(one.y)) for one in chart.series] == [("fc", [1.0, 2.0, 2.0])]


def test_where_the_time_went_adds_up_to_the_run():
    history = [measurement(1, 100.0), measurement(2, 50.0, role="confirmation"), measurement(3, None)]
    page = tuning_page(run(history=[*history, measurement(3, 9.0, reused=True, took_s=0.0)]))
    charts = {chart.title: dict(chart.bars) for chart in blocks(page, BarChart)}
    assert sum(charts["Where the time went"].values()) == pytest.approx(10.0)
    assert charts["Where the time went"]["screening candidates"] == 2.0
    assert charts["Spent on candidates that gave no measurement"] == {"died": 1.0}


def test_a_run_that_the_bank_answered_has_no_chart_and_still_says_how_it_was_made(tmp_path):
    conditions = conditions_of(Surroundings(num_cores=2), TuneEnvironment(work_path=tmp_path), job_type=2)
    page = tuning_page(run(conditions=conditions, notes=["A job file was left alone."], bank="b"))
    assert [section.title for section in page.sections] == ["How it was made"]
    text = render_html(page)
    assert "A job file was left alone." in text
    assert "cores × 0.8 / devices = 2 × 0.8 / 1" in text


def graph_outcome():
    subgraph = pytest.importorskip("jumar.tune.search.subgraph.outcome")
    from jumar.tune.graph import Graph

    plan = Plan(regions=(Region(nodes=(), engine="openvino"),))
    graph = Graph.__new__(Graph)
    attempt = subgraph.Attempt(plan=plan, against=None, stage="confirmation", outcome=measured(1.4))
    cutting = subgraph.Cutting(
        blocks=[subgraph.Block(first=0, num_operators=3, key="k", engines_us={"eager": 9.0, "openvino": 5.0})],
        best_whole="openvino", whole_us=5.0, reason="One block only.",
    )  # fmt: skip
    return subgraph.GraphOutcome(
        name="net", graph=graph, action="add", plan=plan, gain=gain(1.4), attempts=[attempt], cutting=cutting
    )


def test_graphs_are_shown_with_plan_blocks_and_attempts():
    page = tuning_page(run(graphs=[graph_outcome()]))
    tables = blocks(page, Table)
    assert tables[0].rows[0][:3] == ["net", "openvino", "eager"]
    assert list(tables[1].rows[0]) == [0, 3, 9.0, 5.0, "openvino"]
    assert tables[2].rows[0][2] == "taken"


def test_the_other_measurements_of_the_plan_that_was_taken_do_not_say_that_it_was_not():
    graph = graph_outcome()
    first = replace(graph.attempts[0], stage="engines", outcome=measured(1.3))
    left_out = Outcome(status="failed", phase="candidate", detail="not measured: far behind")
    other = replace(first, plan=Plan(regions=(Region(nodes=(), engine="eager"),)), outcome=left_out, is_left_out=True)
    graph.attempts = [first, other, *graph.attempts, replace(first, stage="model")]
    table = blocks(tuning_page(run(graphs=[graph])), Table)[-1]
    words = ["of the plan that was taken", "not measured: far behind", "taken", "of the plan that was taken"]
    assert [row[2] for row in table.rows] == words
    assert table.marked == [2]


def test_the_operators_of_a_graph_that_is_tuned_whole_are_not_listed_as_not_tuned():
    relu = NotTuned(operator="aten::relu", reason="it is not among them", num_calls=1, recorded_us=0.0)
    titles = [section.title for section in tuning_page(run(not_tuned=[relu], graphs=[graph_outcome()])).sections]
    assert "Not tuned" not in titles
    assert "Not tuned" in [section.title for section in tuning_page(run(not_tuned=[relu])).sections]


def test_graphs_by_estimate_say_so_and_engines_that_are_missing_are_named():
    graph = graph_outcome()
    graph.gain = replace(gain(1.4), is_estimate=True)
    graph.left_out = {"openvino": "it is not installed"}
    text = render_html(tuning_page(run(graphs=[graph], machine=ESTIMATED)))
    assert "an estimate, not a measurement" in text
    assert "Estimated for" in text
    assert "Measured on" not in text
    assert "Left out: openvino" in text


def test_the_front_of_latency_and_error_marks_the_chosen_point():
    precision = pytest.importorskip("jumar.tune.search.precision.outcome")
    from jumar.tune.search.precision.outcome import Point

    def point(name, ratio, error, **fields):
        return Point(plan=Plan(regions=(Region(nodes=(), engine=name),)), gain=gain(ratio), error=error, **fields)

    points = [point("a", 1.0, 0.0, is_reference=True), point("b", 1.5, 1e-3), point("c", 1.2, 5e-3)]
    one = precision.PrecisionOutcome(
        name="net", budget=1e-2, points=points, chosen=points[1], notes=["A buffer is wrong by 0.1."]
    )
    page = tuning_page(run(precisions=[one]))
    assert "A buffer is wrong by 0.1." in render_html(page)
    (chart,) = blocks(page, LineChart)
    assert [series.name for series in chart.series] == ["not beaten by another", "chosen", "reference"]
    assert list(chart.series[0].x) == [0.0, 1e-3]
    (table,) = [table for table in blocks(page, Table) if "every point" in table.title]
    assert [(row[0], row[1]) for row in table.rows] == [("b", "chosen"), ("c", "beaten"), ("a", "")]
    assert table.marked == [0]


def test_names_from_outside_are_escaped_and_the_page_is_json_too():
    page = tuning_page(run(tasks=[operator("<script>alert(1)</script>", 1.5)]))
    assert "<script>alert(1)" not in render_html(page)
    assert page_json(page)


@pytest.mark.parametrize("stopped_by", ["", "the time budget"])
def test_a_faster_policy_is_fine_on_a_busy_machine_and_at_the_end_of_the_budget(stopped_by):
    result = run(tasks=[operator("a", 1.7)], stopped_by=stopped_by, load_average=64.0)
    result.findings = [*result.findings, DEVICE_SHARED.finding("the load average is 64", action="Wait.")]
    assert tuning_page(result).verdict.status == "fine"


@pytest.mark.parametrize("stopped_by", ["Ctrl-C", "SIGTERM"])
def test_a_run_that_was_interrupted_needs_attention(stopped_by):
    assert tuning_page(run(tasks=[operator("a", 1.7)], stopped_by=stopped_by)).verdict.status == "attention"


def test_a_run_that_found_nothing_within_its_budget_needs_attention():
    assert tuning_page(run(tasks=[], stopped_by="the time budget")).verdict.status == "attention"
