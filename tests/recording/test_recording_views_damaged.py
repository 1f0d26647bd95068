"""Views in a tensor file are read within the memory they are views of, or refused."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from jumar.recording.foreign import open_foreign
from jumar.recording.tensors.arrays import VIEW_OF, read_tensors
from jumar.recording.tensors.guard import Guard, UnsafeFileError
from jumar.recording.tensors.stored import TensorFile

KEY = "op/forward/-/aten::add.Tensor/0"


def write(path: Path, numbers: list[int], *, base: bool = True) -> Path:
    with h5py.File(path, "w") as file:
        if base:
            file["memory/1"] = np.arange(12, dtype=np.float32)
        view = file.create_dataset(f"{KEY}/input/0", data=np.array(numbers, np.int64))
        view.attrs[VIEW_OF], view.attrs["dtype"] = "/memory/1", "float32"
        file[f"{KEY}/output/0"] = np.ones(3, np.float32)
    return path


def test_a_view_is_read_from_the_memory_it_is_a_view_of(tmp_path) -> None:
    with Guard(write(tmp_path / "a.h5", [2, 3, 2, 1, 4])) as file:
        assert read_tensors(file, KEY)["input.0"].tolist() == [[2, 6], [3, 7], [4, 8]]


@pytest.mark.parametrize(
    "numbers", [[2, 3, 4, 1, 4], [-1, 3, 1], [0, 3, -1], [0, -3, 1], [12, 1, 1], [0, 3], [0, 2**62, 2**62]]
)
def test_a_view_that_leaves_its_memory_is_refused(tmp_path, numbers) -> None:
    with Guard(write(tmp_path / "a.h5", numbers)) as file, pytest.raises((OSError, ValueError)):
        read_tensors(file, KEY)


def test_an_empty_view_is_no_error(tmp_path) -> None:
    with Guard(write(tmp_path / "a.h5", [12, 0, 1])) as file:
        assert read_tensors(file, KEY)["input.0"].shape == (0,)


def test_a_copied_part_without_the_memory_of_a_view_has_the_rest(tmp_path) -> None:
    dump = open_foreign(write(tmp_path / "part.h5", [2, 3, 2, 1, 4], base=False))
    assert dump is not None
    (row,) = dump.rows(0)
    assert sorted(dump.tensors(row)) == ["output.0"]


@pytest.mark.parametrize("kind", [h5py.string_dtype(), h5py.ref_dtype, h5py.vlen_dtype(np.float32), np.dtype("S4")])
@pytest.mark.parametrize("numbers", [[0, 3, 1], [0, 0, 1]])
def test_a_view_of_something_else_than_numbers_is_refused(tmp_path, kind, numbers) -> None:
    """Their elements would be pointers."""
    path = write(tmp_path / "a.h5", numbers, base=False)
    with h5py.File(path, "r+") as file:
        file.create_dataset("memory/1", (12,), kind)
    with Guard(path) as file, pytest.raises(UnsafeFileError, match="holds no numbers"):
        read_tensors(file, KEY)
    with pytest.raises(UnsafeFileError, match="holds no numbers"):
        TensorFile(path).arrays(KEY)
