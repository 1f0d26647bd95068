"""What is tuned: recordings, the descriptions of `torch.npu.set_aoe`, and the operators of a tune-ops file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tune_builders import MACHINE, gain, measured, mm_row, pool_row, spec, write_recording

from jumar.base.errors import InputError, RecordingError
from jumar.base.findings import Location
from jumar.tune.bank.entry import Tried
from jumar.tune.model.task import Policy, Task
from jumar.tune.rules import findings_of
from jumar.tune.search.outcome import SlotOutcome, TaskOutcome, TuneResult
from jumar.tune.search.tasks.extract import read_selection
from jumar.tune.search.tasks.source import open_source

SCRIPT = """
import torch, torch_npu
from torch import nn
torch.npu.set_aoe("dump")
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)).npu()
for _ in range(3):
    model(torch.randn(2, 3, 8, 8).npu()).sum().backward()
"""


def describe(folder: Path, name: str = "mm", **changes: Any) -> None:
    folder.mkdir(exist_ok=True)
    tensors = [
        {"argument": place, "name": argument, "shape": shape, "strides": [shape[1], 1], "dtype": "float32"}
        for place, (argument, shape) in enumerate({"self": [4, 8], "mat2": [8, 4]}.items())
    ]
    known = {"format_version": 1, "operator": "aten::mm", "soc": "Ascend910A", "inputs": tensors, "attributes": {}}
    (folder / f"{name}.json").write_text(json.dumps(known | changes))


def test_what_set_aoe_described_are_the_tasks_each_once(tmp_path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "-m", "jumar", "run", "train.py"], cwd=tmp_path, check=True, capture_output=True)
    source = open_source(tmp_path / "dump")
    assert source.device == "Ascend910B1"
    names = [use.name for use in source.extraction.tasks]
    assert {"model/convolution_OPAT_0", "model/addmm_OPAT_0", "model/mm_OPAT_0"} <= set(names)
    convolution = next(use.task for use in source.extraction.tasks if use.task.base == "convolution")
    assert convolution.tensors["weight"] == spec(8, 3, 3, 3)
    assert (convolution.arguments["padding"], convolution.arguments["groups"]) == ([1, 1], 1)
    assert "aten::relu" in {one.operator for one in source.extraction.not_tuned}


def test_a_description_and_a_recorded_call_of_the_same_operator_are_one_task(tmp_path) -> None:
    describe(tmp_path / "dump")
    (described,) = open_source(tmp_path / "dump").extraction.tasks
    assert described.task == Task(operator="aten::mm", tensors={"self": spec(4, 8), "mat2": spec(8, 4)}, arguments={})
    (recorded,) = open_source(write_recording(tmp_path / "recording", [[mm_row()]])).extraction.tasks
    assert described.task.key == recorded.task.key


@pytest.mark.parametrize(
    ("others", "is_weight"),
    [
        ({}, True),
        ({"operator": "aten::threshold_backward", "inputs": []}, False),
        ({"operator": "aten::add_.Tensor", "inputs": [{"argument": 0, "name": "self", "is_parameter": True}]}, False),
        ({"operator": "aten::add_.Tensor", "inputs": [{"argument": 0, "name": "self", "is_parameter": False}]}, True),
        ({"operator": "aten::relu", "inputs": "damaged"}, True),
    ],
)
def test_parameters_that_are_described_are_weights_unless_a_training_step_is(tmp_path, others, is_weight) -> None:
    tensors = [
        {"argument": 0, "name": "self", "shape": [4, 8], "strides": [8, 1], "dtype": "float32", "is_parameter": False},
        {"argument": 1, "name": "mat2", "shape": [8, 4], "strides": [4, 1], "dtype": "float32", "is_parameter": True},
    ]
    describe(tmp_path, inputs=tensors)
    if others:
        describe(tmp_path, "other", **others)
    product = next(use.task for use in open_source(tmp_path).extraction.tasks if use.task.base == "mm")
    assert (product.tensors["self"].constant, product.tensors["mat2"].constant) == (False, is_weight)


def test_findings_on_a_description_point_at_its_operator(tmp_path) -> None:
    describe(tmp_path)
    source = open_source(tmp_path)
    (use,) = source.extraction.tasks
    policy = Policy(kind="Impl", provider="aten_native")
    slot = SlotOutcome(
        kind="Impl", action="add", policy=policy, gain=gain(1.5), tried=(Tried(policy=policy, outcome=measured(1.5)),)
    )
    result = TuneResult(
        recording=source.path, recorded_device=source.device, machine=MACHINE, min_gain=0.02,
        tasks=[TaskOutcome(use=use, slots=[slot]), TaskOutcome(use=use, failure="raised: no kernel")],
    )  # fmt: skip
    places = {finding.code: finding.where for finding in findings_of(result) if finding.where is not None}
    assert {places["JM501"], places["JM504"]} == {Location(operator="aten::mm")}


def test_a_rank_that_was_not_recorded_is_one_sentence(tmp_path) -> None:
    folder = write_recording(tmp_path / "recording", [[mm_row()]])
    with pytest.raises(RecordingError, match=r"has no rank 3; it has 0\. Choose another --rank\."):
        open_source(folder, rank=3)


def test_equal_descriptions_under_two_names_are_one_task(tmp_path) -> None:
    describe(tmp_path, "one")
    describe(tmp_path, "two", soc="Ascend910B1")
    (use,) = open_source(tmp_path).extraction.tasks
    assert use.num_calls == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inputs": [{"name": "self"}]}, "its description is damaged (KeyError: 'shape')"),
        ({"inputs": [], "attributes": {"self": 1}}, ""),
        ({"operator": "aten::no_such"}, "it is not among the operators that are tuned so far"),
    ],
)
def test_a_damaged_description_is_listed_with_its_reason(tmp_path, changes, reason) -> None:
    describe(tmp_path, "good")
    describe(tmp_path, "odd", **changes)
    extraction = open_source(tmp_path).extraction
    assert any(reason in one.reason for one in extraction.not_tuned) or not reason
    assert "mm" in {use.task.base for use in extraction.tasks}


def test_a_description_of_a_newer_form_is_one_sentence(tmp_path) -> None:
    describe(tmp_path, format_version=9)
    with pytest.raises(InputError, match=r"has form 9 and this Jumar reads up to 1\. Update Jumar\."):
        open_source(tmp_path)


def test_a_folder_that_is_neither_is_one_sentence(tmp_path) -> None:
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(RecordingError, match="is not a recording"):
        open_source(tmp_path)


def chosen(tmp_path: Path, **lists: list[str]) -> list[str]:
    (tmp_path / "ops.json").write_text(json.dumps(lists))
    recording = tmp_path / "recording"
    if not recording.exists():
        write_recording(recording, [[mm_row(module="fc"), mm_row(8, module="head"), pool_row()]])
    extraction = open_source(recording, selection=read_selection(tmp_path / "ops.json")).extraction
    assert len(extraction.tasks) + len(extraction.not_tuned) == 3
    return sorted(use.name for use in extraction.tasks)


def test_names_and_types_are_whole_words_and_their_union_is_tuned(tmp_path) -> None:
    assert chosen(tmp_path, tune_ops_type=["mm"]) == ["fc/mm_OPAT_0", "head/mm_OPAT_0"]
    assert chosen(tmp_path, tune_ops_name=["head/mm_OPAT_0"]) == ["head/mm_OPAT_0"]
    assert chosen(tmp_path, tune_ops_name=["fc"], tune_ops_type=["aten::avg_pool2d"]) == [
        "fc/mm_OPAT_0", "pool/avg_pool2d_OPAT_0",
    ]  # fmt: skip


def test_what_is_listed_and_is_no_operator_here_is_said(tmp_path) -> None:
    chosen(tmp_path, tune_ops_type=["MatMulV2", "Foo"], tune_ops_name=["fc", "stem"])
    selection = read_selection(tmp_path / "ops.json")
    (note,) = open_source(tmp_path / "recording", selection=selection).extraction.notes
    assert "names Foo, stem, which no operator here that can be tuned is." in note
    chosen(tmp_path, tune_ops_type=["mm"])
    fine = read_selection(tmp_path / "ops.json")
    assert open_source(tmp_path / "recording", selection=fine).extraction.notes == []


def test_the_vendors_types_are_understood(tmp_path) -> None:
    assert chosen(tmp_path, tune_ops_type=["MatMulV2"]) == ["fc/mm_OPAT_0", "head/mm_OPAT_0"]


def test_a_file_that_means_nothing_here_says_what_there_is(tmp_path) -> None:
    with pytest.raises(InputError, match="names no operator that can be tuned here; types there are: avg_pool2d, mm"):
        chosen(tmp_path, tune_ops_type=["m"])


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", '{"tune_ops_name": "a"}', '{"tune_ops_type": [1]}',
        '{"tune_ops_name": ["a"], "tune_ops_typ": ["mm"]}',
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_one_sentence(tmp_path, text) -> None:
    (tmp_path / "ops.json").write_text(text)
    with pytest.raises(InputError, match="tune_ops_name"):
        read_selection(tmp_path / "ops.json")
