"""`advise` as a whole: order, tables, what was not checked, bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from step_builder import FakeTables, StepBuilder, advise_steps, write_recording
from test_bottlenecks_four_rules import clean_step, shuffle_step

from jumar.advise.bottlenecks import advise
from jumar.advise.bottlenecks.engine import RULES
from jumar.advise.checks import finders
from jumar.base.errors import DeviceError, RecordingError
from jumar.base.rules import HEADINGS, documentation, rules_of
from jumar.recording import RecordingWriter, RunEnd, RunInfo
from jumar.recording.schema import SCHEMA_VERSION


def test_every_rule_is_documented_under_the_headings_and_registered_once():
    assert [rule.code for rule in rules_of("advise.bottlenecks")] == [
        *(f"JM{number}" for number in range(401, 413)),
        "JM480",
    ]
    for rule in rules_of("advise.bottlenecks"):
        assert [line[3:] for line in documentation(rule).splitlines() if line.startswith("## ")] == list(HEADINGS)
        assert documentation(rule).startswith(f"{rule.code} {rule.name}.")


def test_each_rule_either_ran_or_is_listed_as_not_checked(tmp_path):
    advice = advise_steps(tmp_path, [clean_step(0)])
    listed = {item.code for item in advice.not_checked if item.code not in advice.checked}
    assert {*advice.checked} | listed == {module.RULE.code for module in finders(RULES)}
    assert listed == {"JM403", "JM409", "JM410"}


def test_findings_come_costliest_first_and_information_last(tmp_path):
    b = shuffle_step(0)
    for _ in range(3):
        b.op("aten::linalg_eig", [b.tensor(512, 512)], b.tensor(512, 512), source="model.py:7")
    tiny = b.tensor(4, 4)
    b.op("aten::clone", [b.op("aten::t", [tiny], b.view(tiny, (4, 4), (1, 4)))], b.tensor(4, 4))
    advice = advise_steps(tmp_path, [b], statuses={"aten::linalg_eig": "fallback"})
    assert advice.findings[0].code == "JM401"
    estimates = [f.evidence["estimated_per_step_us"] for f in advice.findings if f.severity.label == "advice"]
    assert estimates == sorted(estimates, reverse=True)
    labels = [finding.severity.label for finding in advice.findings]
    assert labels == sorted(labels)  # "advice" before "info"


def test_the_estimate_is_bytes_over_bandwidth_plus_the_price_of_a_launch(tmp_path):
    advice = advise_steps(tmp_path, [shuffle_step(0)], soc="Ascend910A")
    (finding,) = [finding for finding in advice.findings if finding.code == "JM402"]
    assert finding.evidence["estimated_per_step_us"] == round(8192 / 1.02e6 + 2 * 10.0, 1)


def test_the_operator_table_adds_up_calls_time_bytes_and_flops(tmp_path):
    advice = advise_steps(tmp_path, [clean_step(0), clean_step(1)], statuses={"aten::mm": "decomposed"})
    table = {operator.name: operator for operator in advice.operators}
    product = table["aten::mm"]
    assert (product.num_calls, product.calls_per_step, product.support) == (2, 1.0, "decomposed")
    assert product.flops_per_step == 2 * 32 * 64 * 64
    assert product.bytes_per_step == 4 * (32 * 64 + 64 * 64 + 32 * 64)
    assert product.host_time_share == pytest.approx(1 / 6)
    assert (table["aten::t"].support, table["aten::t"].bytes_per_step) == ("view", 0)
    assert table["aten::_foreach_add_.List"].bytes_per_step == 4 * (2 * 64 * 64 + 32 * 64)
    assert table["aten::relu"].flops_per_step is None


def test_what_runs_once_before_the_first_step_is_in_no_rate(tmp_path):
    first = StepBuilder(0)
    for _ in range(100):
        first.op("aten::normal_", [first.tensor(64)], first.tensor(64), source="train.py:3")
    steps = [first, clean_step(1)]
    steps[0].rows += [replace(row, seq=100 + row.seq, start_us=2000 + row.start_us) for row in clean_step(0).rows]
    names = [operator.name for operator in advise_steps(tmp_path, steps).operators]
    assert "aten::normal_" not in names
    assert "aten::mm" in names


def test_the_steps_split_their_time_by_phase(tmp_path):
    advice = advise_steps(tmp_path, [clean_step(3)])
    (step,) = advice.steps
    assert (step.step, step.operator_us, step.num_operators) == (3, 60.0, 5)
    assert step.phase_us == {"forward": 40.0, "backward": 10.0, "optimizer": 10.0}
    assert step.wait_us == 5.0


def test_a_recording_without_operators_gets_no_all_clear(tmp_path):
    b = clean_step()
    b.rows = [replace(row, kind="module", name="Linear") for row in b.rows if row.module_path]
    advice = advise_steps(tmp_path, [b])
    assert advice.checked == ()
    assert {item.reason for item in advice.not_checked} == {
        "the recording has no operator rows; record with --level module,op."
    }


def test_a_recording_without_a_step_gets_no_all_clear(tmp_path):
    advice = advise_steps(tmp_path, [])
    assert advice.checked == ()
    assert {item.reason for item in advice.not_checked} == {"the recording has no complete step."}


def test_tables_that_cannot_be_loaded_leave_the_fallback_rule_unchecked(tmp_path):
    path = write_recording(tmp_path / "r", [clean_step(0)])

    def fail(soc: str, version: str) -> FakeTables:
        raise DeviceError(f"no tables for {soc}.")

    advice = advise(path, load_support=fail)
    assert "JM401" not in advice.checked
    assert [i.reason for i in advice.not_checked if i.code == "JM401"] == ["no tables for Ascend910B1."]


def test_the_soc_is_the_callers_then_the_recordings(tmp_path):
    path = write_recording(tmp_path / "r", [clean_step(0)], soc="Ascend910A")
    assert advise(path).soc == "Ascend910A"
    assert advise(path, soc="910b1").soc == "Ascend910B1"
    with pytest.raises(DeviceError, match="Ascend999"):
        advise(path, soc="Ascend999")


def test_a_run_that_does_not_name_its_accelerator_is_known_by_its_tensors(tmp_path):
    on_npu = advise_steps(tmp_path / "a", [clean_step(0, device="npu:0")], device="cpu")
    on_cpu = advise_steps(tmp_path / "b", [clean_step(0, device="cpu")], device="cpu")
    assert "JM412" in on_npu.checked
    assert "JM412" not in on_cpu.checked


def test_one_rank_is_looked_at_and_the_others_are_named(tmp_path):
    info = RunInfo(device="npu", soc="Ascend910B1", num_ranks=2)
    for rank in range(2):
        writer = RecordingWriter(tmp_path / "r", info, rank=rank)
        rows = [replace(row, rank=rank) for row in clean_step(0).rows]
        writer.write_step(0, rows)
        writer.close(RunEnd(rank=rank, status="finished", num_steps=1))
    advice = advise(tmp_path / "r")
    assert advice.rank == 0
    assert advice.not_checked[-1].reason == "only rank 0 was looked at; give --rank for another (1)."
    assert advise(tmp_path / "r", rank=1).rank == 1
    with pytest.raises(RecordingError, match="must have rank 7; it has 0, 1"):
        advise(tmp_path / "r", rank=7)


def test_missing_foreign_and_newer_recordings_are_refused(tmp_path):
    with pytest.raises(RecordingError):
        advise(tmp_path / "absent")
    (tmp_path / "foreign").mkdir()
    with pytest.raises(RecordingError):
        advise(tmp_path / "foreign")
    newer = write_recording(tmp_path / "newer", [clean_step(0)])
    run_file = newer / "run.json"
    run = json.loads(run_file.read_text()) | {"schema_version": SCHEMA_VERSION + 1}
    run_file.write_text(json.dumps(run))
    with pytest.raises(RecordingError):
        advise(newer)


def test_a_damaged_step_is_said_and_the_rest_is_used(tmp_path):
    path = write_recording(tmp_path / "r", [clean_step(0), clean_step(1)])
    damaged = sorted(Path(path / "steps").iterdir())[1]
    damaged.write_bytes(damaged.read_bytes()[:100])
    advice = advise(path)
    assert advice.num_steps == 1
    assert len(advice.warnings) == 1


def test_progress_is_told_step_by_step(tmp_path):
    seen: list[tuple[int, int]] = []
    path = write_recording(tmp_path / "r", [clean_step(0), clean_step(1)])
    advise(path, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_the_whole_answer_is_plain_json(tmp_path):
    advice = advise_steps(tmp_path, [shuffle_step(0), shuffle_step(1)])
    document = json.loads(json.dumps({**advice.to_json(), "findings": [f.to_json() for f in advice.findings]}))
    assert document["num_steps"] == 2
    assert document["operators"][0]["calls_per_step"] > 0


def test_odd_rows_break_no_rule(tmp_path):
    b = StepBuilder()
    for name in ("aten::mm", "aten::clone", "aten::copy_", "aten::convolution_backward", "aten::_to_copy", "my::op"):
        b.op(name)
        b.op(name, [b.tensor()], None)
        b.op(name, [b.tensor(0, 3)], b.tensor(0))
    sparse = replace(b.tensor(5, 5), stride=(), contiguous=False, format="SPARSE")
    b.op("aten::relu", [sparse], sparse)
    b.op("aten::clone", [sparse], sparse)
    assert advise_steps(tmp_path, [b, replace_step(b, 1)]).num_steps == 2


def replace_step(b: StepBuilder, step: int) -> StepBuilder:
    other = StepBuilder(step)
    other.rows = [replace(row, step=step) for row in b.rows]
    return other
