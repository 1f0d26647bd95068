"""The result file has the vendor's names, units, formula and counters, and is whole at every moment."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime

import pytest
from tune_builders import MACHINE, gain, mm_task

from jumar.base.errors import OutputError
from jumar.tune.job.result_file import ResultFile
from jumar.tune.measure.conditions.settings import result_folder
from jumar.tune.model.task import Policy
from jumar.tune.search.outcome import SlotOutcome, TaskOutcome, TuneResult
from jumar.tune.search.tasks.extract import TaskUse

ACTIONS = ["add", "add", "update", "reserved", "reserved", "reserved", "unsatisfied"]
KINDS = ["Format", "Schedule", "Impl", "Format", "Impl", "Schedule", "Impl"]


def slot(action: str, kind: str) -> SlotOutcome:
    policy = None if action == "unsatisfied" else Policy(kind=kind, provider="p")
    return SlotOutcome(kind=kind, action=action, policy=policy, gain=None if policy is None else gain(1.5))


def task(name: str, slots=(), failure: str = "") -> TaskOutcome:
    return TaskOutcome(use=TaskUse(task=mm_task(), name=name, module_paths=[name]), slots=list(slots), failure=failure)


def result(tasks, **fields) -> TuneResult:
    known = {
        "recording": "r", "recorded_device": "cpu", "machine": MACHINE, "min_gain": 0.02, "tasks": list(tasks),
        "num_tasks": len(tasks), "status": "successful", "wall_s": 43.7,
    }  # fmt: skip
    return TuneResult(**(known | fields))


def written(tmp_path, outcome, ended=True):
    file = ResultFile(tmp_path)
    file.write(outcome, ended=ended)
    (report,) = json.loads(file.path.read_text("utf-8")).values()
    return report


def test_the_name_holds_the_time_and_the_process(tmp_path):
    file = ResultFile(tmp_path, datetime(2026, 1, 2, 3, 4, 5, 678_901))
    assert file.path.name == f"aoe_result_opat_20260102030405678_pid{os.getpid()}.json"
    file.write(result([]))
    (key,) = json.loads(file.path.read_text("utf-8"))
    assert re.fullmatch(r"report_20260102030405678_\d+", key)


def test_a_successful_run_has_the_documented_fields_and_no_others(tmp_path):
    slots = [slot(action, kind) for action, kind in zip(ACTIONS[:2], KINDS[:2], strict=True)]
    basic, opat = written(tmp_path, result([task("fc/mm_OPAT_0", slots), task("b", [slot("unsatisfied", "Impl")])]))
    assert set(basic["basic"]) == {"tuning_name", "tuning_time(s)"}
    assert basic["basic"]["tuning_time(s)"] == 44
    assert set(opat["OPAT"]) == {"opat_tuning_result", "repo_modified_operators", "repo_summary"}
    assert opat["OPAT"]["opat_tuning_result"] == "tuning successful"
    (operator,) = opat["OPAT"]["repo_modified_operators"]
    assert (operator["op_name"], operator["op_type"]) == ("fc/mm_OPAT_0", "mm")
    assert list(operator["tune_performance"]) == ["Format", "Schedule"]


def test_improvement_is_computed_from_the_numbers_that_are_written(tmp_path):
    _, opat = written(tmp_path, result([task("a", [slot("add", "Impl")])]))
    performance = opat["OPAT"]["repo_modified_operators"][0]["tune_performance"]["Impl"]
    before, after = performance["performance_before_tune(us)"], performance["performance_after_tune(us)"]
    assert performance["performance_improvement"] == f"{(before - after) / after * 100:.2f}%"
    assert performance["update_mode"] == "add"


def test_the_counters_add_up(tmp_path):
    slots = [slot(action, kind) for action, kind in zip(ACTIONS, KINDS, strict=True)]
    _, opat = written(tmp_path, result([task("a", slots[:3]), task("b", slots[3:6]), task("c", slots[6:])]))
    assert opat["OPAT"]["repo_summary"] == {
        "repo_add_num": 2, "repo_update_num": 1, "repo_reserved_num": 3, "repo_unsatisfied_num": 1, "repo_hit_num": 4,
        "total_num": 7,
    }  # fmt: skip
    modified = opat["OPAT"]["repo_modified_operators"]
    modes = [mode["update_mode"] for one in modified for mode in one["tune_performance"].values()]
    assert modes == ["add", "add", "update"]


def test_a_failed_operator_is_named_only_when_the_run_failed(tmp_path):
    _, opat = written(tmp_path, result([task("a"), task("b", failure="no kernel")], status="failed"))
    assert opat["OPAT"]["opat_tuning_result"] == "tuning failed"
    assert opat["OPAT"]["tuning_failed_operators"] == ["b"]


def test_while_a_run_goes_on_it_is_incomplete_and_has_no_time(tmp_path):
    basic, opat = written(tmp_path, result([task("a")], status="incomplete"), ended=False)
    assert "tuning_time(s)" not in basic["basic"]
    assert opat["OPAT"]["opat_tuning_result"] == "tuning incomplete"


def test_without_a_tunable_operator_the_opat_part_is_absent(tmp_path):
    assert [list(part) for part in written(tmp_path, result([]))] == [["basic"]]


def test_writing_leaves_no_other_file(tmp_path):
    file = ResultFile(tmp_path)
    for _ in range(3):
        file.write(result([task("a")]))
    assert list(tmp_path.iterdir()) == [file.path]


def test_the_folder_is_the_work_path_or_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert result_folder({}) == tmp_path
    (tmp_path / "work").mkdir()
    assert result_folder({"ASCEND_WORK_PATH": str(tmp_path / "work")}) == tmp_path / "work"
    with pytest.raises(OutputError, match="ASCEND_WORK_PATH must be an existing folder"):
        result_folder({"ASCEND_WORK_PATH": str(tmp_path / "absent")})
    with pytest.raises(OutputError, match="ASCEND_WORK_PATH must begin with a home folder that is known"):
        result_folder({"ASCEND_WORK_PATH": "~nobody-of-this-name/work"})


def test_a_folder_that_is_gone_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        ResultFile(tmp_path / "absent").write(result([]))
