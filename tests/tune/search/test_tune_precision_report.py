"""What a run says of precision: findings, and the points on the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tune_builders import MACHINE

from jumar.base.errors import InputError, UsageError
from jumar.cli.commands.tune.request import precision_of
from jumar.show.blocks.page import Table
from jumar.show.tuning.summary import precision_sections
from jumar.tune import Bank, tune
from jumar.tune.measure.options import PrecisionOptions
from jumar.tune.model.gate import gain_of
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.lowering.lowering import Lowering
from jumar.tune.rules import findings_of
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.precision.outcome import CONFIRMATION, Lost, Overflow, Point, PrecisionOutcome, pareto


def point(name: str, ratio: float, error: float, *, is_reference: bool = False) -> Point:
    return Point(
        plan=Plan(regions=(Region(nodes=(), engine=name),)),
        gain=gain_of([100.0 * ratio] * 15, [100.0] * 15),
        error=error,
        lowering=Lowering() if is_reference else Lowering(nodes={5: "int8"}),
        is_reference=is_reference,
    )


REFERENCE = point("exact", 1.0, 1e-7, is_reference=True)
GOOD, FAST, BEATEN = point("good", 1.8, 0.008), point("fast", 2.5, 0.05), point("beaten", 1.5, 0.02)
OUTCOME = PrecisionOutcome(name="net", budget=0.01, min_gain=0.02, points=[FAST, REFERENCE, BEATEN, GOOD])


def result_of(outcome: PrecisionOutcome) -> TuneResult:
    return TuneResult(recording="net", recorded_device="cpu", machine=MACHINE, min_gain=0.02, precisions=[outcome])


def said(outcome: PrecisionOutcome) -> dict[str, str]:
    return {one.code: one.message for one in findings_of(result_of(outcome)) if one.code.startswith("JM53")}


def test_the_front_has_what_no_other_beats() -> None:
    assert [one.plan.regions[0].engine for one in pareto(OUTCOME.points)] == ["exact", "good", "fast"]
    assert pareto([point("infinite", 9.0, float("inf")), REFERENCE]) == [REFERENCE]


def test_the_chosen_point_is_a_finding_with_its_interval_and_error() -> None:
    found = said(replace(OUTCOME, chosen=GOOD))
    assert found == {
        "JM535": "net: good, 1 int8 is 1.80 times as fast (95 % interval 1.80 to 1.80) with an error of 0.008 of 0.01."
    }


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"budget": 0.001}, "within an error of 0.001; the most exact that is faster has 0.008"),
        ({"points": [REFERENCE]}, "nothing in fewer bits is faster here"),
        ({"points": [], "lost": [Lost(plan="p", precision="int8", status="busy", detail="")]}, "not judged to the end"),
        ({"points": [], "stopped_by": "--trials"}, "--trials ended it"),
        ({"failure": "it does not run"}, "could not be examined: it does not run"),
        ({"points": [], "unmeasured": "No reason."}, "nothing was measured in fewer bits. No reason."),
    ],
)
def test_a_graph_that_keeps_its_precision_says_why(fields: dict[str, object], says: str) -> None:
    found = said(replace(OUTCOME, **fields))  # type: ignore[arg-type]
    assert says in found["JM536"]


@pytest.mark.parametrize(
    ("fields", "why", "action"),
    [
        ({"lost": [("busy", "3 of 40 pairs were undisturbed")]}, "3 of 40 pairs were undisturbed", "nothing else uses"),
        ({"stopped_by": "--time-budget"}, "--time-budget ended the search before", "more --time-budget"),
        ({"lost": [("disagrees", "")]}, "disagrees", "sample inputs"),
    ],
)
def test_a_point_within_the_budget_that_was_not_confirmed_is_no_question_of_the_budget(
    fields: dict[str, Any], why: str, action: str
) -> None:
    fields["lost"] = [
        Lost(plan=str(GOOD.plan), precision=CONFIRMATION, status=status, detail=detail)
        for status, detail in fields.get("lost", [])
    ]
    (found,) = (one for one in findings_of(result_of(replace(OUTCOME, **fields))) if one.code == "JM536")
    assert found.message == f"net: good, 1 int8 is faster with an error of 0.008 of 0.01, and was not confirmed: {why}."
    assert action in found.action
    assert "--budget if" not in found.action


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({"budget": 0.001}, "Allow a greater --budget"),
        ({"points": [REFERENCE]}, "Leave its precision"),
        ({"points": [], "stopped_by": "--trials"}, "Tune again"),
        ({"failure": "it does not run"}, "Mend what it names"),
    ],
)
def test_a_greater_budget_is_advised_only_where_it_would_help(fields: dict[str, Any], action: str) -> None:
    (found,) = (one for one in findings_of(result_of(replace(OUTCOME, **fields))) if one.code == "JM536")
    assert found.action.startswith(action)


def test_overflows_metrics_and_missing_arithmetic_are_findings() -> None:
    overflows = [Overflow(name="mul_0", precision="fp16", greatest=1e6)]
    found = said(
        replace(OUTCOME, overflows=overflows, metric="m:f", metric_failed="ValueError: no", missing={"bf16": "no"})
    )
    assert found["JM537"].startswith(
        "net: 1 operator makes or reads values that fp16 cannot hold, first mul_0 with 1e+06"
    )
    assert found["JM538"] == "net: the metric m:f failed: ValueError: no."
    assert found["JM539"] == "bf16 was left out: no."
    assert "JM536" not in found


def test_the_terminal_has_every_point_and_where_it_stands() -> None:
    (section,) = precision_sections(result_of(replace(OUTCOME, chosen=GOOD, files=[Path("net.ini")])))
    table = section.blocks[0]
    assert isinstance(table, Table)
    assert [row[:3] for row in table.rows] == [
        ["exact", "reference", 1e-7],
        ["beaten, 1 int8", "beaten, over budget", 0.02],
        ["good, 1 int8", "chosen", 0.008],
        ["fast, 1 int8", "over budget", 0.05],
    ]


def test_the_json_says_of_each_point_whether_it_is_on_the_front_and_within_the_budget() -> None:
    points = replace(OUTCOME, chosen=GOOD).to_json()["points"]
    marks = [(one["is_on_front"], one["is_within_budget"], one["is_chosen"]) for one in points]
    assert marks == [(True, True, False), (False, False, False), (True, True, True), (True, False, False)]
    assert result_of(OUTCOME).to_json()["precisions"][0]["budget"] == 0.01


def test_options_of_the_command_line_are_read_or_refused() -> None:
    assert precision_of("auto", "0.5%", "").budget == pytest.approx(0.005)
    with pytest.raises(UsageError, match="--precision"):
        precision_of("quick", "1e-2", "")
    assert precision_of("auto", "1e-2", "builtins:max").metric == "builtins:max"
    with pytest.raises(UsageError, match="cannot be imported"):
        precision_of("auto", "1e-2", "math:no_such")
    assert precision_of("keep", None, "").budget == precision_of("auto", None, "").budget == 0.01
    for budget, metric in (("1e-3", ""), ("1e-2", ""), (None, "builtins:max")):
        with pytest.raises(UsageError, match="would do nothing without --precision auto"):
            precision_of("keep", budget, metric)


def test_a_broken_precision_file_is_refused_before_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "net.ini"
    path.write_text("Conv2D=quick\n")
    with pytest.raises(InputError, match=r"net\.ini:1"):
        precision_of(str(path), "1e-2", "")
    (tmp_path / "bank").mkdir()
    with pytest.raises(InputError, match=r"net\.ini:1"):
        tune(
            tmp_path / "no_recording", bank=Bank.open(tmp_path / "bank"), result_folder=tmp_path,
            precision=PrecisionOptions(precision=str(path)),
        )  # fmt: skip


def test_a_metric_beside_the_model_is_found_and_what_its_module_raises_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metric_here.py").write_text("print('hello')\ndef error(outputs, reference): return 0.0\n")
    (tmp_path / "metric_broken.py").write_text("raise RuntimeError('no data\\nat all')\n")
    monkeypatch.chdir(tmp_path)
    precision_of("auto", "1e-2", "metric_here:error")
    assert capsys.readouterr().out == ""
    with pytest.raises(UsageError, match=r"cannot be imported \(no data\); give"):
        precision_of("auto", "1e-2", "metric_broken:error")
