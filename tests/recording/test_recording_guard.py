"""HDF5 files that point elsewhere or declare more than they hold are refused, wherever they are read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from jumar.base.errors import RecordingError
from jumar.recording.foreign import open_foreign
from jumar.recording.tensors.arrays import VIEW_OF
from jumar.recording.tensors.guard import Guard, UnsafeFileError
from jumar.recording.tensors.stored import TensorFile

PLACE = "op1/1/input"


def external_storage(file: h5py.File, secret: Path) -> None:
    file.create_dataset(f"{PLACE}/0", (4,), "u1", external=[(str(secret), 0, 4)])


def external_link(file: h5py.File, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["data"] = np.frombuffer(secret.read_bytes(), np.uint8)
    file[f"{PLACE}/0"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/data")


def external_link_to_a_group(file: h5py.File, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["side/0"] = np.frombuffer(secret.read_bytes(), np.uint8)
    file.create_group("op1/1")["output"] = h5py.SoftLink("/away/side")
    file["away"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/")


def soft_link_to_an_external_one(file: h5py.File, secret: Path) -> None:
    external_link(file, secret)
    file[f"{PLACE}/1"] = h5py.SoftLink(f"/{PLACE}/0")
    del file[f"{PLACE}/0"]
    file["elsewhere"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/data")
    del file[f"{PLACE}/1"]
    file[f"{PLACE}/1"] = h5py.SoftLink("/elsewhere")


def virtual(file: h5py.File, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["data"] = np.frombuffer(secret.read_bytes(), np.uint8)
    layout = h5py.VirtualLayout((secret.stat().st_size,), np.uint8)
    layout[:] = h5py.VirtualSource(str(secret.with_suffix(".h5")), "data", (secret.stat().st_size,))
    file.create_virtual_dataset(f"{PLACE}/0", layout)


def view_of_an_external_link(file: h5py.File, secret: Path) -> None:
    with h5py.File(secret.with_suffix(".h5"), "w") as other:
        other["data"] = np.frombuffer(secret.read_bytes(), np.uint8)
    file["base"] = h5py.ExternalLink(str(secret.with_suffix(".h5")), "/data")
    file[f"{PLACE}/0"] = np.array([0, 4, 1])
    file[f"{PLACE}/0"].attrs[VIEW_OF] = "/base"


def never_written(file: h5py.File, secret: Path) -> None:
    file.create_dataset(f"{PLACE}/0", (8 << 30,), "f4")


def chunks_that_inflate(file: h5py.File, secret: Path) -> None:
    made = file.create_dataset(f"{PLACE}/0", (160 << 20,), "u1", compression="gzip", chunks=(4 << 20,))
    chunk = zlib.compress(bytes(4 << 20), 1)
    for start in range(0, 160 << 20, 4 << 20):
        made.id.write_direct_chunk((start,), chunk)


def a_view_that_is_repeated(file: h5py.File, secret: Path) -> None:
    file["base"] = np.ones(4, "f4")
    file[f"{PLACE}/0"] = np.array([0, 1 << 20, 1 << 20, 0, 0])
    file[f"{PLACE}/0"].attrs[VIEW_OF] = "/base"


CASES = [
    external_storage, external_link, external_link_to_a_group, soft_link_to_an_external_one, virtual,
    view_of_an_external_link, never_written, chunks_that_inflate, a_view_that_is_repeated,
]  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Callable[[Callable[[h5py.File, Path], None]], Path]:
    def make(case: Callable[[h5py.File, Path], None]) -> Path:
        (tmp_path / "secret").write_bytes(b"root")
        with h5py.File(tmp_path / "dump.h5", "w") as file:
            file["op1/1/output/0"] = np.ones(3, "f4") if case is not external_link_to_a_group else np.ones(1)
            if case is external_link_to_a_group:
                del file["op1"]
            case(file, tmp_path / "secret")
        return tmp_path / "dump.h5"

    return make


def read(path: Path) -> None:
    dump = open_foreign(path)
    for row in (row for step in dump.steps() for row in dump.rows(step)):
        dump.tensors(row)


@pytest.mark.parametrize("case", CASES)
def test_a_dump_that_points_elsewhere_or_inflates_is_refused_in_one_sentence(
    made: Callable[..., Path], case: Callable[[h5py.File, Path], None]
) -> None:
    path = made(case)
    with pytest.raises(RecordingError) as raised:
        read(path)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_a_recording_that_does_so_is_refused(
    made: Callable[..., Path], case: Callable[[h5py.File, Path], None]
) -> None:
    path = made(case)
    with pytest.raises(UnsafeFileError):
        TensorFile(path).arrays("op1/1")


def test_links_within_the_file_are_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = np.arange(3)
        file["a/b"] = h5py.SoftLink("/data")
        file["a/c"] = h5py.SoftLink("b")
        file["a/d"] = file["data"]
        file["loop"] = h5py.SoftLink("/loop")
    with Guard(tmp_path / "a.h5") as guard:
        assert [guard.item(name)[()].tolist() for name in ("a/b", "a/c", "a/d")] == [[0, 1, 2]] * 3
        with pytest.raises(OSError, match="a link to itself"):
            guard.item("loop")
        with pytest.raises(KeyError):
            guard.item("nothing/at/all")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(OSError, match="is no file"):
        Guard(tmp_path / "pipe.h5")
