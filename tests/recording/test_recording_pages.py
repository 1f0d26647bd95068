"""Pages of a file that are written past the system's cache, and the rest of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.recording.tensors import target
from jumar.recording.tensors.target import PAGE, PageWriter


def page_aligned(num: int, offset: int = 0) -> np.ndarray:
    """Return pseudo-random bytes whose memory begins `offset` bytes after a page does."""
    room = np.empty(num + 2 * PAGE, np.uint8)
    start = -room.ctypes.data % PAGE + offset
    array = room[start : start + num]
    array[:] = np.random.default_rng(num).integers(0, 256, num)
    return array


def written(path: Path, pieces: list[tuple[int, np.ndarray]]) -> bytes:
    with path.open("wb", buffering=0) as raw:
        pages = PageWriter(path, raw.fileno())
        for place, array in pieces:
            pages.write(array.data, array.ctypes.data, place)
        pages.close()
    return path.read_bytes()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 3 * PAGE + 1), st.sampled_from([0, 1, 64])), min_size=1, max_size=5),
    st.booleans(),
)
def test_every_byte_is_where_it_belongs(tmp_path_factory, sizes, whole_pages) -> None:
    place, pieces = 0, []
    for num, offset in sizes:
        pieces.append((place, page_aligned(num, offset)))
        place += -(-num // PAGE) * PAGE if whole_pages else num
    found = written(tmp_path_factory.mktemp("pages") / "file", pieces)
    for start, array in pieces:
        assert found[start : start + array.size] == array.tobytes()


def test_a_file_system_that_wants_another_alignment_is_written_through_its_cache(tmp_path, monkeypatch) -> None:
    def refuse(file: int, data: memoryview, place: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    path, array = tmp_path / "file", page_aligned(3 * PAGE + 5)
    usual = target.write_all
    with path.open("wb", buffering=0) as raw:
        pages = PageWriter(path, raw.fileno())
        monkeypatch.setattr(
            target, "write_all", lambda file, *rest: usual(file, *rest) if file == raw.fileno() else refuse(file, *rest)
        )
        pages.write(array.data, array.ctypes.data, 0)
        pages.write(array.data, array.ctypes.data, 4 * PAGE)
        pages.close()
    assert path.read_bytes()[4 * PAGE :] == path.read_bytes()[: array.size] == array.tobytes()


def test_a_full_disk_is_passed_on(tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path, array = tmp_path / "file", page_aligned(2 * PAGE)
    with path.open("wb", buffering=0) as raw:
        pages = PageWriter(path, raw.fileno())
        monkeypatch.setattr(target, "write_all", full)
        with pytest.raises(OSError, match="No space"):
            pages.write(array.data, array.ctypes.data, 0)
        pages.close()
