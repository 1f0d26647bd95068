"""Tensors that stay in their file: any slice of them is what the whole holds there."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import RecordingError
from jumar.recording.tensors.arrays import write_tensors
from jumar.recording.tensors.stored import TensorFile

ARRAYS = {
    "input.0": np.arange(60, dtype=np.float32).reshape(3, 4, 5),
    "input.1": np.array(2.5),
    "input.2": np.zeros((0, 3), np.int64),
    "output.0": np.arange(7) > 3,
    "output.1": np.arange(6, dtype=np.complex64) * 1j,
    "output.2": np.array([0x3F80, 0x4000], np.uint16),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> TensorFile:
    path = tmp_path_factory.mktemp("stored") / "step.h5"
    write_tensors(path, {"key": ARRAYS, "other": {"input.0": ARRAYS["input.0"]}}, {"key": {"output.2": "bfloat16"}})
    return TensorFile(path)


def test_whole_tensors_are_read_as_they_were_written(file: TensorFile) -> None:
    found = file.arrays("key")
    assert set(found) == set(ARRAYS)
    for name in set(ARRAYS) - {"output.2"}:
        assert np.array_equal(np.asarray(found[name]), ARRAYS[name])
        assert (found[name].shape, np.asarray(found[name]).dtype) == (ARRAYS[name].shape, ARRAYS[name].dtype)
    assert np.asarray(found["output.2"]).tolist() == [1.0, 2.0]
    assert found["output.0"].astype("float64").dtype == np.float64


@settings(derandomize=True, deadline=None, max_examples=40)
@given(start=st.integers(0, 60), length=st.integers(0, 60))
def test_a_slice_is_that_part_of_the_whole(file: TensorFile, start: int, length: int) -> None:
    expected = ARRAYS["input.0"].reshape(-1)[start : start + length]
    assert np.array_equal(file.arrays("key")["input.0"].read(start, min(60, start + length)), expected)


def test_a_tensor_with_two_names_is_one_object(file: TensorFile) -> None:
    assert file.arrays("key")["input.0"] is file.arrays("other")["input.0"]
    assert file.arrays("key")["input.0"].identity != file.arrays("key")["input.1"].identity


@pytest.mark.parametrize("shape", [(100, 7), (1, 1, 90), (1,), (6,)])
def test_chunked_data_of_other_tools_is_read_in_slices_too(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    with h5py.File(tmp_path / "x.h5", "w") as made:
        made.create_dataset("key/input/0", data=values, chunks=shape, compression="gzip")
    array = TensorFile(tmp_path / "x.h5").arrays("key")["input.0"]
    for start, stop in ((0, values.size), (1, values.size), (0, 1), (values.size // 2, values.size // 2 + 1)):
        assert np.array_equal(array.read(start, stop), values.reshape(-1)[start:stop])


def test_a_file_that_ends_within_a_tensor_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "step.h5"
    write_tensors(path, {"key": {"input.0": np.ones(100_000)}}, {})
    array = TensorFile(path).arrays("key")["input.0"]
    os.truncate(path, 5000)
    with pytest.raises(RecordingError, match=r"ends within a tensor\. Record this step again\."):
        array.read(0, 100_000)


def test_a_row_that_is_not_there_is_a_key_error(file: TensorFile) -> None:
    with pytest.raises(KeyError):
        file.arrays("nothing")
