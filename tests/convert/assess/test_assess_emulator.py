"""`jumar assess --emulator`: coverage of torch_npu, asked of the running emulator."""

from __future__ import annotations

import json

import pytest

from jumar.cli.main import main
from jumar.convert.assess import EmulatorCoverage, assess_emulator

PYTHON_AND_OPERATORS = 799 + 19


@pytest.fixture(scope="module")
def coverage() -> EmulatorCoverage:
    return assess_emulator()


def test_every_name_is_counted_once(coverage: EmulatorCoverage) -> None:
    assert sum(group.num_names for group in coverage.api) == PYTHON_AND_OPERATORS
    assert coverage.total.num_names == PYTHON_AND_OPERATORS
    assert coverage.total.num_working + len(coverage.total.refused) == PYTHON_AND_OPERATORS
    assert coverage.num_unreachable == {"C++ interface": 108, "environment variables": 10}


def test_the_groups_people_ask_for_are_there(coverage: EmulatorCoverage) -> None:
    groups = {group.group for group in coverage.api}
    asked = {"device", "streams and events", "memory", "random", "amp", "serialization", "optim", "contrib", "profiler"}
    assert asked | {"custom operators"} <= groups


def test_a_group_counts_what_the_emulator_answers(coverage: EmulatorCoverage) -> None:
    import torch

    by_name = {group.group: group for group in coverage.api}
    assert by_name["random"].percent == 100.0
    refused = {item.name: item.nearest for item in by_name["device"].refused}
    assert refused["torch_npu.npu.stop_device"] == "torch.npu.synchronize()"
    assert "torch_npu.npu.set_device" not in refused
    with pytest.raises(NotImplementedError):
        torch.npu.stop_device(0)


def test_the_custom_operators_are_those_that_have_a_kernel(coverage: EmulatorCoverage) -> None:
    refused = {item.name for item in coverage.custom.refused}
    assert "torch.ops.npu.npu_rms_norm" not in refused
    assert coverage.custom.num_names > 400


def test_the_command_prints_a_table_that_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", "--emulator"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = [row for row in rows if len(row) >= 5 and row[-4:][0].isdigit() and row[-1].replace(".", "").isdigit()]
    names, working, refused = (sum(int(row[at]) for row in table[:-1]) for at in (-4, -3, -2))
    assert table[-1][:4] == ["total", str(names), str(working), str(refused)]
    assert names == working + refused == PYTHON_AND_OPERATORS


def test_json_names_what_is_refused(coverage: EmulatorCoverage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", "--emulator", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["num_names"], document["num_working"]) == (PYTHON_AND_OPERATORS, coverage.total.num_working)
    listed = [item["name"] for group in document["groups"] for item in group["refused"]]
    assert sorted(listed) == sorted(item.name for item in coverage.total.refused)


@pytest.mark.parametrize("arguments", [[], ["--emulator", "train.py"]])
def test_it_takes_a_path_or_the_emulator(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", *arguments]) == 2
    assert "either a PATH or --emulator" in capsys.readouterr().err


def test_a_custom_operator_that_is_refused_comes_with_what_its_refusal_says(coverage: EmulatorCoverage) -> None:
    import torch

    nearest = {item.name: item.nearest for item in coverage.custom.refused}
    assert all(nearest.values())
    advice = nearest["torch.ops.npu.npu_sim_exponential_"]
    with pytest.raises(NotImplementedError) as refusal:
        torch.ops.npu.npu_sim_exponential_(torch.ones(4, device="npu"))
    assert str(refusal.value).endswith(f"{advice}.")


def test_advice_by_hand_is_for_names_that_are_refused(coverage: EmulatorCoverage) -> None:
    from jumar.npu.core import nearest

    refused = {item.name for group in coverage.api for item in group.refused}
    assert set(nearest._BY_NAME) <= refused
    idle = [prefix for prefix in nearest._BY_PREFIX if not any(name.startswith(prefix) for name in refused)]
    assert idle == []
