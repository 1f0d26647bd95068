from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from jumar.base.errors import RecordingError
from jumar.recording import Recording, RecordingWriter, RunInfo
from jumar.recording.tensors.arrays import decode

FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_code_of_a_float8_format_decodes_as_torch_decodes_it(dtype: str) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    expected = codes.view(getattr(torch, dtype)).to(torch.float32).numpy()
    np.testing.assert_array_equal(expected, decode(codes.numpy(), dtype))


def test_bfloat16_comes_back_as_the_float32_of_the_same_value(tmp_path: Path, make_row, make_tensor) -> None:
    values = torch.randn(2, 3).to(torch.bfloat16)
    row = make_row(outputs=(make_tensor(dtype="bfloat16"),))
    writer = RecordingWriter(tmp_path / "r", RunInfo())
    writer.write_step(0, [row], {row.key: {"output.0": values.view(torch.uint16).numpy()}})
    read = Recording.open(tmp_path / "r").tensors(row)["output.0"]
    assert (np.dtype("float32"), True) == (read.dtype, np.array_equal(values.float().numpy(), read))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", "bool", "complex64"])
def test_arrays_come_back_bit_for_bit(tmp_path: Path, make_row, dtype: str) -> None:
    array = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    row = make_row()
    RecordingWriter(tmp_path / "r", RunInfo()).write_step(0, [row], {row.key: {"input.1": array, "output.0": array[0]}})
    read = Recording.open(tmp_path / "r").tensors(row)
    assert {"input.1", "output.0"} == set(read)
    assert (array.dtype, array.tobytes()) == (read["input.1"].dtype, read["input.1"].tobytes())
    assert read["output.0"].shape == (3,)


def test_nested_keyword_scalar_and_gradient_names_survive(tmp_path: Path, make_row) -> None:
    row = make_row(kind="module", phase="backward", name="Block", module_path="a.b")
    arrays = {"input.2.1": np.ones(2), "input.weight": np.zeros(3), "grad_output.0": np.float32(4.0)}
    RecordingWriter(tmp_path / "r", RunInfo()).write_step(0, [row], {row.key: arrays})
    read = Recording.open(tmp_path / "r").tensors(row)
    assert set(arrays) == set(read)
    assert float(read["grad_output.0"]) == 4.0


def test_the_layout_is_the_documented_one(tmp_path: Path, make_row) -> None:
    import h5py

    row = make_row()
    RecordingWriter(tmp_path / "r", RunInfo()).write_step(0, [row], {row.key: {"input.0": np.ones(2, np.float32)}})
    with h5py.File(tmp_path / "r" / "tensors" / "step-000000-rank-0.h5") as file:
        data = file["op/forward/layer1.0.conv1/aten::convolution/0/input/0"]
        assert (data.shape, data.attrs["dtype"]) == ((2,), "float32")


def test_asking_for_tensors_that_were_not_recorded_is_one_sentence(tmp_path: Path, make_row) -> None:
    writer = RecordingWriter(tmp_path / "r", RunInfo())
    writer.write_step(0, [make_row()])
    recording = Recording.open(tmp_path / "r")
    assert not recording.has_tensors()
    with pytest.raises(RecordingError, match="Record with --values tensors"):
        recording.tensors(make_row())


def test_a_truncated_tensor_file_is_a_warning_and_its_rows_stay(tmp_path: Path, make_row) -> None:
    row = make_row()
    RecordingWriter(tmp_path / "r", RunInfo()).write_step(0, [row], {row.key: {"input.0": np.ones(5000)}})
    path = tmp_path / "r" / "tensors" / "step-000000-rank-0.h5"
    path.write_bytes(path.read_bytes()[:3000])
    recording = Recording.open(tmp_path / "r")
    assert recording.steps() == [0]
    assert any("step-000000-rank-0.h5 is cut short" in warning for warning in recording.warnings)
    with pytest.raises(RecordingError, match="cannot be read"):
        recording.tensors(row)
