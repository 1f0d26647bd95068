from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.recording import Recording, RecordingWriter, RunInfo
from jumar.recording.tensors.arrays import TensorWriter, read_tensors, write_tensors
from jumar.recording.tensors.guard import Guard
from jumar.recording.tensors.views import ArrayView

BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def read(path: Path) -> dict[str, dict[str, Any]]:
    with Guard(path) as file:
        return {key: read_tensors(file, key) for key in ("a", "b") if key in file.hdf5}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.permutations(range(3)), st.lists(st.integers(0, 2), min_size=3, max_size=3), st.booleans())
def test_views_come_back_as_what_they_are_views_of(tmp_path_factory, order, starts, base_first) -> None:
    parts = tuple(slice(min(start, size - 1), None) for start, size in zip(starts, BASE.shape, strict=True))
    expected = BASE[parts].transpose(order)
    offset = (expected.__array_interface__["data"][0] - BASE.__array_interface__["data"][0]) // 4
    view = ArrayView(BASE, expected.shape, tuple(step // 4 for step in expected.strides), offset)
    tensors = {"a": {"input.0": BASE}, "b": {"output.0": view}}
    path = tmp_path_factory.mktemp("views") / "t.h5"
    write_tensors(path, tensors if base_first else dict(reversed(tensors.items())), {})
    found = read(path)
    assert (found["a"]["input.0"].tolist(), found["b"]["output.0"].tolist()) == (BASE.tolist(), expected.tolist())


def test_memory_that_is_seen_through_views_only_is_stored_once(tmp_path: Path) -> None:
    base = np.random.default_rng(0).random(100_000)
    views = {f"input.{number}": ArrayView(base, (100, 1000), (1, 100), 0) for number in range(5)}
    write_tensors(tmp_path / "t.h5", {"a": views}, {})
    assert (tmp_path / "t.h5").stat().st_size < 1.05 * base.nbytes
    assert read(tmp_path / "t.h5")["a"]["input.3"].tolist() == base.reshape(1000, 100).T.tolist()


def test_a_recordings_reader_gives_views_as_arrays(tmp_path: Path, make_row) -> None:
    row = make_row()
    raw = np.array([0x3F80, 0x4000, 0x4040, 0x4080], np.uint16)  # bfloat16 1, 2, 3, 4
    tensors = {row.key: {"input.0": raw, "output.0": ArrayView(raw, (2, 2), (1, 2), 0)}}
    writer = RecordingWriter(tmp_path / "r", RunInfo())
    dtypes = {row.key: {"input.0": "bfloat16", "output.0": "bfloat16"}}
    from jumar.recording.rows import rows_to_table

    writer.write_table(0, rows_to_table([row]), tensors, dtypes)
    assert Recording.open(tmp_path / "r").tensors(row)["output.0"].tolist() == [[1.0, 3.0], [2.0, 4.0]]


def some_tensors(seed: int, size: int = 6) -> dict[str, dict[str, Any]]:
    first = np.random.default_rng(seed).random((size, 4)).astype(np.float32)
    second = np.float64(seed)
    view = ArrayView(first, (4, size), (1, 4), 0)
    return {"a": {"input.0": first, "input.1": np.array(second), "output.0": view}, "b": {"input.0": first}}


def as_lists(tensors: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        key: {name: (a.to_array() if isinstance(a, ArrayView) else a).tolist() for name, a in arrays.items()}
        for key, arrays in tensors.items()
    }


def test_a_file_built_like_the_one_before_differs_in_its_data_only(tmp_path: Path) -> None:
    writer = TensorWriter()
    for seed in range(3):
        tensors = some_tensors(seed)
        writer.write(tmp_path / f"{seed}.h5", tensors, {})
        assert as_lists(read(tmp_path / f"{seed}.h5")) == as_lists(tensors)
        write_tensors(tmp_path / "alone.h5", tensors, {})
        assert (tmp_path / f"{seed}.h5").stat().st_size == (tmp_path / "alone.h5").stat().st_size


def test_a_file_of_another_structure_is_built_anew(tmp_path: Path) -> None:
    writer = TensorWriter()
    for number, size in enumerate((6, 7, 6)):
        tensors = some_tensors(number, size)
        writer.write(tmp_path / f"{number}.h5", tensors, {})
        assert as_lists(read(tmp_path / f"{number}.h5")) == as_lists(tensors)


@pytest.mark.parametrize("which", ["the first", "a later one"])
def test_a_disk_that_is_full_is_an_error_of_any_file(tmp_path: Path, monkeypatch, which: str) -> None:
    writer = TensorWriter()
    if which == "a later one":
        writer.write(tmp_path / "0.h5", some_tensors(0), {})
    pwrite, left = os.pwrite, [2]

    def full(file: int, data: Any, place: int) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(file, data, place)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        writer.write(tmp_path / "1.h5", some_tensors(1), {})
    monkeypatch.undo()
    writer.write(tmp_path / "2.h5", some_tensors(2), {})
    assert as_lists(read(tmp_path / "2.h5")) == as_lists(some_tensors(2))
