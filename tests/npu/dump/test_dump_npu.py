"""`torch.npu.init_dump`, `set_dump`, `finalize_dump` and `set_aoe`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from jumar.base.errors import DeviceError, InputError, OutputError, UsageError
from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu.dump import DumpConfig, finalize_dump, init_dump, set_aoe, set_dump  # noqa: E402
from jumar.npu.dump.folder import file_name  # noqa: E402
from jumar.npu.formats.ledger import ledger  # noqa: E402  # the emulator's parts need the device


@pytest.fixture(autouse=True)
def settings_of_its_own():
    with emulate("Ascend910B1", numerics="exact", unsupported="fallback"):
        yield


def configuration(folder, **changes):
    table = {"dump_list": [], "dump_path": str(folder / "out"), "dump_mode": "all", "dump_op_switch": "on", **changes}
    file = folder / "dump.json"
    file.write_text(json.dumps({"dump": table}))
    return file


def dumped(folder):
    """Arrays by operator, side and index, in the order in which they were written."""
    files = sorted((folder / "out").rglob("*.npy"), key=lambda file: int(file.name.split(".")[2]))
    return {".".join([file.name.split(".")[1], *file.name.split(".")[5:7]]): np.load(file) for file in files}


def test_the_documents_example_writes_what_add_saw_and_gave(tmp_path):
    init_dump()
    set_dump(configuration(tmp_path))
    a = torch.tensor([2, 2]).to("npu:0")
    a.add_(1)
    finalize_dump()
    a.add_(1)
    found = dumped(tmp_path)
    assert {name: array.tolist() for name, array in found.items()} == {
        "aten_add__Tensor_0.input.0": [2, 2],
        "aten_add__Tensor_0.output.0": [3, 3],
    }
    file = next((tmp_path / "out").rglob("*.npy"))
    stamp, device = file.parent.parent.name, file.parent.name
    assert (len(stamp), stamp.isdecimal(), device) == (14, True, "0")


@pytest.mark.parametrize(
    ("mode", "sides"), [("input", {"input"}), ("output", {"output"}), ("all", {"input", "output"})]
)
def test_the_mode_says_which_side_is_written(tmp_path, mode, sides):
    x = torch.ones(3, device="npu")
    init_dump()
    set_dump(configuration(tmp_path, dump_mode=mode))
    x.relu()
    finalize_dump()
    assert {name.split(".")[1] for name in dumped(tmp_path)} == sides


def test_every_call_has_files_of_its_own(tmp_path):
    x = torch.ones(3, device="npu")
    init_dump()
    set_dump(configuration(tmp_path, dump_mode="output"))
    for factor in (1, 2, 3):
        x * factor
    finalize_dump()
    assert [array.tolist() for array in dumped(tmp_path).values()] == [[1] * 3, [2] * 3, [3] * 3]


def test_types_that_numpy_lacks_are_written_as_float32(tmp_path):
    x = torch.full((2,), 1.5, dtype=torch.bfloat16, device="npu")
    init_dump()
    set_dump(configuration(tmp_path, dump_mode="output"))
    x.neg()
    finalize_dump()
    (array,) = dumped(tmp_path).values()
    assert (array.dtype, array.tolist()) == (np.float32, [-1.5, -1.5])


def test_options_begin_and_a_blocks_end_ends_a_dump(tmp_path):
    x = torch.ones(3, device="npu")
    file = configuration(tmp_path)
    with emulate("Ascend910B1"):
        torch.npu.set_option({"mdldumpswitch": "enable", "mdldumpconfigpath": str(file)})
        x.exp()
    x.exp()
    assert [name for name in dumped(tmp_path) if "output" in name] == ["aten_exp_0.output.0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "dump": {\n  "dump_list":[]\n  "dump_path":"x"}}', "must be JSON; got Expecting ',' delimiter in line 4"),
        ("[]", 'must be {"dump": {…}}; got []: put the keys under "dump"'),
        ('{"dump": {}}', "must name a folder as dump_path; got null"),
        (
            '{"dump": {"dump_path": "x", "dump_mode": "both"}}',
            'dump_mode in .* must be one of input, output, all; got "both"',
        ),
        (
            '{"dump": {"dump_path": "x", "dump_op_switch": true}}',
            "dump_op_switch in .* must be one of on, off; got true",
        ),
        ('{"dump": {"dump_path": "x", "dump_modes": "all"}}', "not emulated, 'dump_modes': did you mean dump_mode"),
        ('{"dump": {"dump_path": "x", "dump_list": [{"a": 1}]}}', "dump_list in .* must be empty"),
        (
            '{"dump": {"dump_path": "x", "dump_debug": "on", "dump_op_switch": "on"}}',
            "dump_debug and dump_op_switch in .* must not both be on",
        ),
    ],
)
def test_a_wrong_configuration_is_told_in_one_sentence(tmp_path, text, message):
    file = tmp_path / "dump.json"
    file.write_text(text)
    init_dump()
    with pytest.raises(InputError, match=message.replace("[", r"\[").replace("{", r"\{")) as raised:
        set_dump(file)
    assert "\n" not in str(raised.value)


def test_a_missing_configuration_and_a_missing_start_are_errors(tmp_path):
    with pytest.raises(DeviceError, match=r"call init_dump\(\) first"):
        set_dump(configuration(tmp_path))
    init_dump()
    with pytest.raises(InputError, match="No such file"):
        set_dump(tmp_path / "none.json")


def test_a_configuration_that_dumps_nothing_warns(tmp_path):
    init_dump()
    with pytest.warns(UserWarning, match='dump_op_switch is "off"'):
        set_dump(configuration(tmp_path, dump_op_switch="off"))
    torch.ones(2, device="npu").relu()
    finalize_dump()
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name != "posix", reason="a file in the place of a folder is one everywhere, its message is not")
def test_a_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path):
    (tmp_path / "out").write_text("a file")
    x = torch.ones(2, device="npu")
    init_dump()
    set_dump(configuration(tmp_path))
    with pytest.raises(OutputError, match=r"cannot be written \((File exists|Not a directory)\)"):
        x.relu()
    finalize_dump()


def test_dumps_do_not_share_a_folder(tmp_path):
    x = torch.ones(2, device="npu")
    for _ in range(3):
        init_dump()
        set_dump(configuration(tmp_path, dump_mode="output"))
        x.relu()
        finalize_dump()
    files = list((tmp_path / "out").rglob("*.npy"))
    assert (len(files), len({file.parent for file in files})) == (3, 3)


@pytest.mark.slow
def test_two_processes_do_not_share_a_folder(tmp_path):
    code = """
import sys, torch
from jumar.device import DevicePlan, activate
activate(DevicePlan(real="never"))
from jumar.npu.dump import init_dump, set_dump
x = torch.ones(2).npu()
init_dump(); set_dump(sys.argv[1]); x.relu()
"""
    file = configuration(tmp_path, dump_mode="output")
    command = [sys.executable, "-c", code, str(file)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    files = list((tmp_path / "out").rglob("*.npy"))
    assert (len(files), len({file.parent for file in files})) == (2, 2)


@given(st.text(alphabet="ab:._/\\ \t", min_size=1))
def test_file_names_have_no_separators(text):
    assert not set(file_name(text)) & set(".:/\\ \t")


# Overflows


def overflowing_step():
    x = torch.tensor([60000.0, 1.0], dtype=torch.float16).npu()
    y = x * 2
    return y + 1


def test_overflowing_operators_are_collected_with_their_tensors(tmp_path):
    with DumpConfig(enable_dump_debug=True, dump_path=tmp_path) as found:
        overflowing_step()
    assert [(item.operator, item.kind) for item in found.overflows] == [("aten::mul.Tensor", "aicore")]
    files = sorted(file.name.split(".", 5)[-1] for file in tmp_path.rglob("*.*") if file.is_file())
    assert files == ["input.0.npy", "output.0.npy", "overflow.json"]
    told = json.loads(next(tmp_path.rglob("*.overflow.json")).read_text())
    assert (told["operator"], told["kind"], told["tensors"]["input.0"]) == (
        "aten::mul.Tensor",
        "aicore",
        {"shape": [2], "dtype": "float16"},
    )


def test_a_chip_that_saturates_has_its_overflows_collected_too(tmp_path):
    with (
        emulate("Ascend910A", numerics="strict"),
        DumpConfig(enable_dump_debug=True, dump_path=tmp_path, dump_debug_mode="aicore_overflow") as found,
    ):
        y = overflowing_step()
    assert ([item.operator for item in found.overflows], y.tolist()) == (["aten::mul.Tensor"], [65504, 3])


def test_data_and_overflows_exclude_each_other(tmp_path):
    with pytest.raises(UsageError, match="enable_dump and enable_dump_debug must not both be on"):
        DumpConfig(enable_dump=True, enable_dump_debug=True, dump_path=tmp_path)
    init_dump()
    set_dump(configuration(tmp_path))
    with (
        pytest.raises(DeviceError, match="end the data dump first"),
        DumpConfig(enable_dump_debug=True, dump_path=tmp_path),
    ):
        pass
    finalize_dump()
    with DumpConfig(enable_dump_debug=True, dump_path=tmp_path):
        init_dump()
        with pytest.raises(DeviceError, match="end the overflow mode 'all' first"):
            set_dump(configuration(tmp_path))
    finalize_dump()


@pytest.mark.parametrize("mode", ["aicore_overflow", "atomic_overflow"])
def test_later_chips_collect_all_overflows_or_none(tmp_path, mode):
    config = DumpConfig(enable_dump_debug=True, dump_path=tmp_path, dump_debug_mode=mode)
    with pytest.raises(DeviceError, match=f"on Ascend910B1 the overflow mode must be 'all'; got '{mode}'"), config:
        pass


def test_a_dump_configuration_says_what_is_wrong(tmp_path):
    with pytest.raises(UsageError, match="got neither enable_dump nor enable_dump_debug"):
        DumpConfig(dump_path=tmp_path)
    with pytest.raises(InputError, match="dump_path must be a folder that exists"):
        DumpConfig(enable_dump=True, dump_path=tmp_path / "none")
    with pytest.raises(UsageError, match="dump_mode must be input, output or all"):
        DumpConfig(enable_dump=True, dump_path=tmp_path, dump_mode="both")


# Descriptions for tuning


def test_each_distinct_operator_is_described_once(tmp_path):
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        model = nn.Conv2d(3, 8, 3, stride=2).npu().half()
        x = torch.ones(2, 3, 8, 8, dtype=torch.float16, device="npu")
        set_aoe(tmp_path / "a" / "b")
        for _ in range(3):
            model(x)
        model(x[:1].contiguous())
    model(x)
    files = sorted((tmp_path / "a" / "b").glob("aten_convolution-*.json"))
    tables = [json.loads(file.read_text()) for file in files]
    assert sorted(table["inputs"][0]["shape"][0] for table in tables) == [1, 2]
    table = next(table for table in tables if table["inputs"][0]["shape"][0] == 2)
    assert (table["format_version"], table["operator"], table["soc"]) == (1, "aten::convolution", "Ascend910A")
    assert table["inputs"][1] == {
        "argument": 1,
        "name": "weight",
        "is_parameter": True,
        "shape": [8, 3, 3, 3],
        "strides": [27, 9, 3, 1],
        "dtype": "float16",
        "format": "FRACTAL_Z",
    }
    assert (table["outputs"][0]["format"], table["attributes"]["stride"]) == ("NC1HWC0", [2, 2])


@pytest.mark.parametrize(
    "mode", [torch.enable_grad, torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__
)
def test_a_view_of_a_parameter_is_described_as_one(tmp_path, mode):
    with emulate("Ascend910B1", numerics="exact"):
        model, x = nn.Linear(8, 4).npu(), torch.ones(2, 8, device="npu")
        set_aoe(tmp_path / "dump")
        with mode():
            model(x)
    (file,) = (tmp_path / "dump").glob("aten_addmm-*.json")  # of the transposed weight
    given = {tensor["name"]: tensor["is_parameter"] for tensor in json.loads(file.read_text())["inputs"]}
    assert given == {"self": True, "mat1": False, "mat2": True}


def test_a_path_that_cannot_be_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "below", ""):
        with pytest.raises(ValueError, match="is invalid"):
            set_aoe(path)


def test_nothing_is_observed_when_nobody_dumps():
    assert not ledger.is_on()
