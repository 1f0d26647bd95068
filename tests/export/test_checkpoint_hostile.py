"""Damaged and hostile checkpoints are refused in one sentence; nothing in them is run, nothing outside is read."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError, OutputError
from jumar.export import CheckpointOptions, export_checkpoint
from jumar.export.formats.pytorch.machine import DamagedPickleError, ForbiddenNameError, unpickle
from jumar.export.formats.weights import open_weights

FILES = Path(__file__).parents[1] / "fixtures" / "checkpoints"
TRAP = "JUMAR_TEST_TRAP"


def read(path: Path) -> dict[str, torch.Tensor]:
    with open_weights(path) as weights:
        return {name: weights.read(name) for name in weights.names()}


def told(path: Path) -> dict[str, torch.Tensor] | str:
    """Return the tensors of a file, or the sentence with which it is refused."""
    try:
        return read(path)
    except InputError as error:
        return str(error)


def refused(path: Path, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


class Evil:
    def __reduce__(self):
        return os.system, (f"touch {os.environ[TRAP]}",)


SOURCES = [
    "keras2_layers.h5", "keras3.weights.h5", "keras3.keras", "mindspore.ckpt", "mindspore_adam.ckpt", "names.index",
    "keras3_objects.index", "zip.pth", "legacy.pth", "x.safetensors", "distributed",
]  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> Path:
    """Return a folder with a file of each format."""
    folder = tmp_path_factory.mktemp("originals")
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    state = {"model": {"fc.w": torch.arange(40.0).reshape(8, 5), "fc.b": torch.ones(3).bfloat16()}, "epoch": 3}
    torch.save(state, folder / "zip.pth")
    torch.save(state, folder / "legacy.pth", _use_new_zipfile_serialization=False)
    export_checkpoint(folder / "zip.pth", folder / "x.safetensors")
    return folder


def mutable(folder: Path, name: str) -> list[Path]:
    if name == "distributed":
        return sorted((folder / name).iterdir())
    if name.endswith(".index"):
        return sorted(folder.glob(f"{name.removesuffix('.index')}.*"))
    return [folder / name]


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_give_tensors_or_one_sentence(originals, data) -> None:
    """No other exception, no crash, no hang, whatever byte was changed in a file of any format."""
    name = data.draw(st.sampled_from(SOURCES))
    path = data.draw(st.sampled_from(mutable(originals, name)))
    whole = path.read_bytes()
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(changed))
    found = told(originals / name)
    path.write_bytes(whole)
    assert not isinstance(found, str) or "\n" not in found


@given(st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_short_is_never_read_as_whole(originals, data) -> None:
    name = data.draw(
        st.sampled_from([name for name in SOURCES if name not in {"mindspore.ckpt", "mindspore_adam.ckpt"}])
    )
    path = data.draw(st.sampled_from(mutable(originals, name)))
    whole = path.read_bytes()
    expected = read(originals / name)
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    # What lies behind the last tensor (HDF5's free space) may be gone unnoticed; all values are then there.
    found = told(originals / name)
    path.write_bytes(whole)
    if isinstance(found, str):
        assert "\n" not in found
    else:
        assert {key: one.tolist() for key, one in found.items()} == {key: one.tolist() for key, one in expected.items()}


@pytest.mark.parametrize("name", ["names.data-00000-of-00001", "keras3_objects.data-00000-of-00001", "zip.pth"])
def test_a_changed_value_breaks_a_checksum(originals, tmp_path, name) -> None:
    for path in mutable(originals, name.replace(".data-00000-of-00001", ".index")):
        shutil.copy(path, tmp_path)
    path = tmp_path / name
    whole = bytearray(path.read_bytes())
    at = whole.index(np.float32(1.125).tobytes()) if name != "zip.pth" else whole.index(np.float32(39).tobytes())
    whole[at] ^= 1
    path.write_bytes(whole)
    refused(tmp_path / name.replace(".data-00000-of-00001", ".index"), "checksum")


@pytest.mark.parametrize("name", ["x.pth", "x.safetensors", "x.ckpt", "x.h5", "x.index", "x.keras"])
@pytest.mark.parametrize("form", ["zip", "legacy", "pickle"])
def test_code_is_refused_and_not_run_whatever_the_file_is_called(tmp_path, monkeypatch, name, form) -> None:
    monkeypatch.setenv(TRAP, str(tmp_path / "trap"))
    if form == "pickle":
        (tmp_path / name).write_bytes(pickle.dumps({"w": Evil()}))
    else:
        torch.save({"w": torch.ones(2), "x": Evil()}, tmp_path / name, _use_new_zipfile_serialization=form == "zip")
    refused(tmp_path / name, "posix.system, which Jumar does not build")
    assert not (tmp_path / "trap").exists()


def test_code_in_the_metadata_of_a_distributed_checkpoint_is_not_run(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(TRAP, str(tmp_path / "trap"))
    shutil.copytree(FILES / "distributed", tmp_path / "d")
    (tmp_path / "d" / ".metadata").write_bytes(pickle.dumps(Evil()))
    refused(tmp_path / "d", "posix.system")
    assert not (tmp_path / "trap").exists()


def test_a_distributed_checkpoint_does_not_lead_out_of_its_folder(tmp_path) -> None:
    shutil.copytree(FILES / "distributed", tmp_path / "d")
    shutil.move(tmp_path / "d" / "__0_0.distcp", tmp_path / "0_0.distcp")
    path = tmp_path / "d" / ".metadata"
    # "../0_0.distcp" is one byte longer; the text's length stands before it.
    old = path.read_bytes()
    new = old.replace(b"\x8c\x0c__0_0.distcp", b"\x8c\x0d../0_0.distcp")
    assert new != old
    at = new.index(b"\x95") + 1
    new = new[:at] + (int.from_bytes(new[at : at + 8], "little") + 1).to_bytes(8, "little") + new[at + 8 :]
    path.write_bytes(new)
    refused(tmp_path / "d", r"names the file '\.\./0_0\.distcp'")


@pytest.mark.parametrize(
    ("shard", "match"),
    [
        ("../secret.safetensors", "not in its folder"), ("/etc/passwd", "not in its folder"),
        ("..", "not in its folder"),
        ("gone.safetensors", "is missing"), ("x.index.json", "not in its folder"), ("other.index.json", "is an index"),
    ],
)  # fmt: skip
def test_an_index_does_not_lead_out_of_its_folder(tmp_path, originals, shard, match) -> None:
    shutil.copy(originals / "x.safetensors", tmp_path / "secret.safetensors")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "other.index.json").write_text("{}")
    (folder / "x.index.json").write_text(json.dumps({"weight_map": {"fc.w": shard}}))
    refused(folder / "x.index.json", match)


@pytest.mark.parametrize("text", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}', '{"a', "[" * 100_000])
def test_an_index_without_its_table_is_one_sentence(tmp_path, text) -> None:
    (tmp_path / "x.index.json").write_text(text if text[0] == "{" else '{"weight_map":' + text)
    refused(tmp_path / "x.index.json", "index of shards|weight_map")


def header(told: dict, values: bytes = b"", length: int | None = None) -> bytes:
    data = json.dumps(told).encode()
    return (len(data) if length is None else length).to_bytes(8, "little") + data + values


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (header({"a": ONE, "b": ONE}, bytes(4)), "overlap"),
        (header({"a": ONE, "b": {**ONE, "data_offsets": [8, 12]}}, bytes(12)), "leave a gap"),
        (header({"a": ONE}, bytes(8)), "4 bytes and the file 8"),
        (header({"a": {**ONE, "data_offsets": [0, 8]}}, bytes(8)), "another size than its shape"),
        (header({"a": {**ONE, "shape": [1 << 40, 1 << 40]}}, bytes(4)), "another size|no shape"),
        (header({"a": {**ONE, "shape": [-1]}}, bytes(4)), "no shape"),
        (header({"a": {**ONE, "dtype": "F99"}}, bytes(4)), "'F99', which PyTorch has not"),
        (header({"a": ONE}, bytes(4), length=1 << 60) , "header has|begins with|no PyTorch"),
        (header({"a": ONE}, bytes(4)).replace(b'"a"', b'"a":1,"a"'), "damaged"),
    ],
)  # fmt: skip
def test_a_header_of_safetensors_that_breaks_a_rule_is_refused(tmp_path, content, match) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    refused(tmp_path / "x.safetensors", match)


def test_an_hdf5_file_does_not_lead_to_others(tmp_path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["kernel"] = np.ones(3)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["dense"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/kernel")
    refused(tmp_path / "link.h5", "a link to another file, which is not followed")
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "kernel", shape=(3,))
        file.create_virtual_dataset("w", layout)
    refused(tmp_path / "virtual.h5", "values in other files, which are not read")
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        file.create_dataset("w", (3,), "f4", external=[("/etc/passwd", 0, 12)])
    refused(tmp_path / "raw.h5", "values in other files, which are not read")
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("w", (1 << 40,), "f4", chunks=(1 << 20,))
    refused(tmp_path / "large.h5", "declares")
    with h5py.File(tmp_path / "loop.h5", "w") as file:
        file.create_group("a")["b"] = file["/"]
    refused(tmp_path / "loop.h5", "without an end|damaged|recursion")


def test_a_zip_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("jumar.base.outside.archives.SPARE_BYTES", 1 << 20)
    for member in ("model.weights.h5", "archive/data.pkl"):
        with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, bytes(64 << 20))
        refused(tmp_path / "x.zip", "its members are 67,108,864 bytes")


def test_a_tensor_reaches_only_what_its_storage_holds(tmp_path) -> None:
    state = {"w": torch.arange(4.0)}
    torch.save(state, tmp_path / "x.pth")
    with zipfile.ZipFile(tmp_path / "x.pth") as old, zipfile.ZipFile(tmp_path / "y.pth", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            # The tensor's shape (4,): a number of one byte, then a tuple of one.
            new.writestr(name, data.replace(b"K\x04\x85", b"K\x40\x85") if name.endswith("data.pkl") else data)
    refused(tmp_path / "y.pth", "reaches beyond its storage")


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02r\xff\xff\xff\x7f.", b"\x80\x02N", b"\x80\x02X\xff\xff\xff\x7fa.", b"\x8e" + b"\xff" * 8 + b".",
        b"(((.", b"\x80\x02]\x85R.", b"\x80\x02Nb.", b"e.", b"\x8b\x00\x00\x00\x80.", b"i" * 10, b"",
    ],
)  # fmt: skip
def test_programs_that_are_no_pickle_end_in_an_error(program) -> None:
    def nothing(name: str) -> None:
        raise ForbiddenNameError(name)

    with pytest.raises((DamagedPickleError, ForbiddenNameError)):
        unpickle(io.BytesIO(program), nothing)


@given(st.binary(max_size=80))
def test_any_bytes_as_a_pickle_give_a_value_or_an_error(program) -> None:
    def nothing(name: str) -> None:
        raise ForbiddenNameError(name)

    with contextlib.suppress(DamagedPickleError, ForbiddenNameError):
        unpickle(io.BytesIO(program), nothing)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
), st.integers(2, 5))  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_plain_values_come_out_of_a_pickle_as_python_reads_them(value, protocol) -> None:
    from jumar.export.formats.pytorch.names import Table

    def none(*_):
        raise AssertionError

    assert unpickle(io.BytesIO(pickle.dumps(value, protocol)), Table(none)) == value


KILLED = """
import sys, time
from pathlib import Path
from jumar.export import CheckpointOptions, export_checkpoint
import jumar.export.formats.registry as registry
registry.digest_of = lambda pieces: (print("written", flush=True), time.sleep(60))
export_checkpoint(Path(sys.argv[1]), Path(sys.argv[2]), CheckpointOptions(force=True))
"""


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".ckpt", ".h5"])
def test_a_kill_before_the_end_leaves_the_old_file(tmp_path, suffix) -> None:
    torch.save({"fc.w": torch.ones(1000)}, tmp_path / "in.pth")
    output = tmp_path / f"out{suffix}"
    output.write_bytes(b"old")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "in.pth"), str(output)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert output.read_bytes() == b"old"


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".ckpt", ".h5"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, suffix) -> None:
    torch.save({"fc.w": torch.ones(1 << 20)}, tmp_path / "in.pth")
    output = tmp_path / f"out{suffix}"
    output.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OutputError, match="cannot be written") as caught:
            export_checkpoint(tmp_path / "in.pth", output, CheckpointOptions(force=True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert "\n" not in str(caught.value)
    assert output.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.pth", output.name]


def test_a_pickle_that_holds_one_list_many_times_does_not_fill_the_memory(tmp_path, monkeypatch) -> None:
    """20 lists, each of the one before a hundred times, are 100²⁰ values."""
    value: object = "x"
    for _ in range(20):
        value = [value] * 100
    torch.save({"model": {"w": torch.ones(1)}, "bomb": value}, tmp_path / "in.pth")
    begin = time.monotonic()
    export_checkpoint(tmp_path / "in.pth", tmp_path / "out.pt")
    monkeypatch.setattr("jumar.export.formats.nested.MOST_VALUES", 100_000)
    with pytest.raises(InputError, match="too many values to keep"):
        export_checkpoint(tmp_path / "in.pth", tmp_path / "kept.pt", CheckpointOptions(with_state=True))
    assert time.monotonic() - begin < 30
