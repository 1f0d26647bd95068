"""`torch.utils.dumper`: calls of operators in one HDF5 file, and such a file fed to operators."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from jumar.base.errors import InputError, OutputError, UsageError
from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu import override  # noqa: E402  # the emulator's parts need the device
from jumar.recording.tensors.arrays import read_tensors  # noqa: E402
from jumar.recording.tensors.guard import Guard  # noqa: E402

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.float64, torch.complex64]


def dumper(*args, **kwargs):
    return torch.utils.dumper(*args, **kwargs)


def content(path):
    with Guard(path) as file:
        keys = [f"{name}/{number}" for name in file.hdf5 for number in file.hdf5[name]]
        return {key: read_tensors(file, key) for key in keys}


def step(model, x):
    model.zero_grad()
    y = model(x)
    y.square().sum().backward()
    return y


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).npu()


def test_a_step_is_written_with_inputs_and_outputs(tmp_path):
    model, x = small_model(), torch.randn(5, 4).npu()
    with dumper(use_dump=True, dump_path=tmp_path / "model.h5"):
        y = step(model, x)
    found = content(tmp_path / "model.h5")
    assert {"aten::addmm/1", "aten::addmm/2", "aten::relu/1", "aten::threshold_backward/1"} <= set(found)
    assert np.array_equal(found["aten::addmm/1"]["input.1"], x.cpu().numpy())
    assert np.array_equal(found["aten::addmm/2"]["output.0"], y.detach().cpu().numpy())


def test_what_an_operator_overwrites_is_written_as_it_was(tmp_path):
    x = torch.tensor([2.0, 3.0]).npu()
    with dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
        x.add_(1)
        torch._foreach_mul_([x, x], 2)
    found = content(tmp_path / "x.h5")
    assert {name: array.tolist() for name, array in found["aten::add_.Tensor/1"].items()} == {
        "input.0": [2, 3],
        "output.0": [3, 4],
    }
    assert found["aten::_foreach_mul_.Scalar/1"]["input.0.0"].tolist() == [3, 4]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.lists(st.integers(0, 4), max_size=4), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99))
def test_tensors_come_back_as_they_were(tmp_path, shape, dtype, seed):
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3).to(dtype).npu()
    with dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
        x.clone()
    array = content(tmp_path / "x.h5")["aten::clone/1"]["output.0"]
    assert torch.equal(torch.from_numpy(np.asarray(array)).to(dtype), x.cpu())
    assert array.shape == tuple(shape)


def test_recorded_inputs_stop_an_error_from_spreading(tmp_path):
    model, x = small_model(), torch.randn(5, 4).npu()
    with dumper(use_dump=True, dump_path=tmp_path / "reference.h5"):
        model(x)

    def wrong(original, *args):
        return original(*args) + 1

    with (
        override("aten::relu", wrong),
        dumper(use_dump=True, load_file_path=tmp_path / "reference.h5", dump_path=tmp_path / "target.h5"),
    ):
        model(x)
    before, after = content(tmp_path / "reference.h5"), content(tmp_path / "target.h5")
    differ = {key for key in before if not np.array_equal(before[key]["output.0"], after[key]["output.0"])}
    assert differ == {"aten::relu/1"}
    assert np.array_equal(before["aten::addmm/2"]["input.1"], after["aten::addmm/2"]["input.1"])


def test_recorded_inputs_replace_other_ones(tmp_path):
    with dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
        torch.tensor([1.0, 2.0]).npu().mul_(10)
    x = torch.zeros(2).npu()
    with dumper(use_load=True, load_file_path=tmp_path / "x.h5"):
        x.mul_(10)
    assert x.tolist() == [10, 20]


def test_an_extract_feeds_the_calls_it_holds(tmp_path):
    with dumper(use_dump=True, dump_path=tmp_path / "all.h5"):
        x = torch.tensor([1.0, 2.0]).npu()
        x.exp()
        x.neg()
        (x + 1).neg()
    with h5py.File(tmp_path / "all.h5", "r") as source, h5py.File(tmp_path / "one.h5", "w") as target:
        source.copy("aten::neg/2", target.create_group("aten::neg"), "2")
    other = torch.zeros(2).npu()
    with dumper(use_load=True, load_file_path=tmp_path / "one.h5"):
        results = [other.neg().tolist(), other.neg().tolist(), other.exp().tolist()]
    assert results == [[0, 0], [-2, -3], [1, 1]]


def test_fed_operators_can_be_dumped_file_by_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with dumper(use_dump=True, dump_path="x.h5"):
        torch.tensor([1.0, 2.0]).npu().neg()
    table = {"dump_list": [], "dump_path": "./output_IR2TBE", "dump_mode": "all", "dump_op_switch": "on"}
    (tmp_path / "acl.json").write_text(json.dumps({"dump": table}))
    with dumper(use_load=True, dump_path="./", load_file_path="x.h5", load_with_acl_dump=True):
        torch.zeros(2).npu().neg().exp()
    found = {file.name.split(".")[0]: np.load(file).tolist() for file in tmp_path.rglob("*.input.0.npy")}
    assert found == {"aten_neg": [1, 2]}


def test_a_file_of_another_program_is_refused(tmp_path):
    with dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
        torch.ones(3).npu().neg()
    with (
        pytest.raises(InputError, match=r"got shape \(3,\) for input.0 of aten::neg, which has \(4,\)"),
        dumper(use_load=True, load_file_path=tmp_path / "x.h5"),
    ):
        torch.ones(4).npu().neg()


def test_the_first_overflow_is_written_and_told(tmp_path):
    x = torch.tensor([60000.0], dtype=torch.float16).npu()
    with (
        pytest.warns(
            UserWarning, match=r"operator aten::mul.Tensor overflowed; its tensors are in .*aten_mul_Tensor.h5"
        ),
        dumper(check_overflow=True, dump_path=tmp_path, load_file_path="") as found,
    ):
        ((x + 1) * 2).neg().pow(2)
    assert [item.operator for item in found.overflows] == ["aten::mul.Tensor"]
    written = content(tmp_path / "aten_mul_Tensor.h5")["aten::mul.Tensor/1"]
    assert (written["input.0"].tolist(), written["output.0"].tolist()) == ([60000], [float("inf")])


def test_without_an_overflow_nothing_is_written(tmp_path):
    with dumper(check_overflow=True, dump_path=tmp_path) as found:
        torch.ones(2).npu().neg()
    assert (found.overflows, list(tmp_path.iterdir())) == ([], [])


def test_every_rank_has_a_file_of_its_own(tmp_path, monkeypatch):
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
            torch.ones(2).npu().neg()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x-rank-1.h5", "x.h5"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "got none of use_dump, use_load and check_overflow"),
        ({"use_dump": True}, "got no dump_path"),
        ({"use_load": True}, "got no load_file_path"),
        ({"use_dump": True, "check_overflow": True, "dump_path": "x.h5"}, "must not both be on"),
        ({"use_dump": True, "dump_path": "x.h5", "load_with_acl_dump": True}, "must be used with use_load"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(UsageError, match=message):
        dumper(**wrong)


def test_files_that_cannot_be_read_or_written_are_told_in_one_sentence(tmp_path):
    with (
        pytest.raises(InputError, match="load_file_path must be an HDF5 file"),
        dumper(use_load=True, load_file_path="no"),
    ):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match="cannot be written"),
        dumper(use_dump=True, dump_path=tmp_path / "file" / "x.h5"),
    ):
        torch.ones(2).npu().neg()
    with emulate("Ascend910B1"):
        assert torch.ones(2).npu().neg().tolist() == [-1, -1]


@pytest.mark.skipif(not __import__("os").path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    from jumar.npu.dump import hdf5

    def full(part, *_):
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hdf5, "write_tensors", full)
    with (
        pytest.raises(OutputError, match="No space left on device"),
        dumper(use_dump=True, dump_path=tmp_path / "x.h5"),
    ):
        torch.ones(2).npu().neg()
    assert list(tmp_path.iterdir()) == []
