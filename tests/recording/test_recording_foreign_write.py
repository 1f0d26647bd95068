"""Dumps written in another format are read back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import foreign_samples as samples
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from jumar.base.errors import OutputError, RecordingError
from jumar.cli.main import main
from jumar.comparison import compare
from jumar.recording import Recording
from jumar.recording.foreign import Dump, open_foreign, to_hdf5, to_msprobe, to_npy, to_text
from jumar.recording.tensors.arrays import write_tensors


def opened(path: Path) -> Dump:
    found = open_foreign(path)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return samples.recording(tmp_path_factory.mktemp("interchange") / "run")


def operators(recording: Recording) -> list[str]:
    return [row.name for row in recording.rows(0) if row.kind == "op" and row.phase != "optimizer"]


def test_a_recording_becomes_the_dumpers_hdf5(recorded: Recording, tmp_path: Path) -> None:
    number = to_hdf5(recorded, tmp_path / "run.h5")
    dump = opened(tmp_path / "run.h5")
    kept = [row for row in recorded.rows(0) if row.kind in {"op", "module", "loss"} and has_tensors(recorded, row)]
    rows = dump.rows(0)
    assert [row.name for row in rows][: len(kept)] == [row.name for row in kept]
    assert len(rows) == number
    for mine, theirs in zip(kept, rows, strict=False):
        expected, found = recorded.tensors(mine), dump.tensors(theirs)
        assert all(np.array_equal(found[name], expected[name], equal_nan=True) for name in expected)

    assert [(row.phase, row.module_path, row.source, row.arguments) for row in rows[: len(kept)]] == [
        (row.phase, row.module_path, row.source, row.arguments) for row in kept
    ]
    assert agrees(recorded.path, tmp_path / "run.h5")


def agrees(reference: Path, target: Path, *, without_optimizer: bool = False) -> bool:
    """Tell whether every operator of the target has met its own, and agrees."""
    found = compare(reference, target)
    alone = [call for call in found.unmatched_target if not without_optimizer or call.phase != "optimizer"]
    return found.headline.startswith("The runs agree") and not alone


def has_tensors(recording: Recording, row: object) -> bool:
    try:
        return bool(recording.tensors(row))  # type: ignore[arg-type]
    except RecordingError:
        return False


def test_a_recording_becomes_a_folder_of_msprobe_with_its_modules(recorded: Recording, tmp_path: Path) -> None:
    to_msprobe(recorded, tmp_path / "dump")
    part = tmp_path / "dump" / "step0" / "rank0"
    document = json.loads((part / "dump.json").read_text())
    assert (document["level"], document["task"], document["framework"]) == ("mix", "tensor", "pytorch")
    assert "Module.0.Linear.forward.0" in document["data"]
    parents = json.loads((part / "construct.json").read_text())
    assert parents["Aten.addmm.0.forward"] == "Module.0.Linear.forward.0"
    assert parents["Module.0.Linear.forward.0"] == "Module.Sequential.forward.0"
    dump = opened(tmp_path / "dump")
    mine = [row for row in recorded.rows(0) if row.kind in {"op", "module"}]
    theirs = dump.rows(0)
    assert [(row.kind, row.module_path, row.source) for row in theirs if row.phase == "forward"] == [
        (row.kind, row.module_path, row.source.rpartition("/")[2]) for row in mine if row.phase == "forward"
    ]
    assert agrees(recorded.path, tmp_path / "dump", without_optimizer=True)


def test_npy_and_text_hold_every_tensor_of_the_calls_chosen(recorded: Recording, tmp_path: Path) -> None:
    number = to_npy(recorded, tmp_path / "npy", operator="aten::addmm")
    files = sorted((tmp_path / "npy").rglob("*.npy"))
    assert (number, len(files)) == (8, 8)
    assert files[0].name.startswith("aten__addmm.0.") or files[0].name.startswith("aten_addmm.0.")
    assert to_text(recorded, tmp_path / "text", operator="aten::addmm") == 8
    text = sorted((tmp_path / "text").rglob("*.txt"))[0]
    assert np.array_equal(np.loadtxt(text, dtype=np.float32), np.load(files[0]).reshape(-1))
    first = text.read_text().splitlines()[0]
    assert first == f"# shape {list(np.load(files[0]).shape)} dtype float32"


def test_a_dump_of_the_vendors_form_is_read_back(tmp_path: Path) -> None:
    path = samples.hdf5(tmp_path / "npu.h5")
    to_npy(path, tmp_path / "npy")
    rows = opened(tmp_path / "npy").rows(0)
    assert [len(row.inputs) + len(row.outputs) for row in rows] == [len(arrays) for arrays in samples.ARRAYS.values()]
    assert rows[0].outputs[0].num_inf == 1


FLOATS = st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.uint8, np.bool_])
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
NAMES = st.text("abcdefgz_:.", min_size=1, max_size=8).filter(
    lambda text: text.strip(".") == text and "_grad" not in text
)
CALLS = st.lists(st.tuples(NAMES, FLOATS.flatmap(lambda kind: arrays_of.arrays(kind, SHAPES))), min_size=1, max_size=6)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(calls=CALLS)
def test_hdf5_written_and_read_is_what_it_was(calls: list[tuple[str, np.ndarray]], tmp_path_factory: object) -> None:
    folder: Path = tmp_path_factory.mktemp("h")  # type: ignore[attr-defined]
    places: dict[str, dict[str, np.ndarray]] = {}
    for name, array in calls:
        number = 1 + sum(place.rpartition("/")[0] == name for place in places)
        places[f"{name}/{number}"] = {"input.0": array, "output.0": array.copy()}
    write_tensors(folder / "a.h5", places, {})
    to_hdf5(folder / "a.h5", folder / "b.h5")
    first, second = opened(folder / "a.h5"), opened(folder / "b.h5")
    assert [row.name for row in first.rows(0)] == [name for name, _ in calls]
    assert first.rows(0) == second.rows(0)
    for row, arrays in zip(second.rows(0), places.values(), strict=True):
        found = second.tensors(row)
        assert all(np.array_equal(found[name], arrays[name], equal_nan=array_is_float(arrays[name])) for name in arrays)
        assert all(found[name].dtype == arrays[name].dtype for name in arrays)


def array_is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


# -- the command --------------------------------------------------------------------------------


def test_the_command_lists_and_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(samples.hdf5(tmp_path / "npu.h5"))
    assert main(["dump", "list", path]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "0 0 op forward aten::mul.Tensor/1: input.0 float32[2] 1..2, input.other float32[2] 2..2 (1 not finite) -> "
        "output.0 float32[2] 2..2 (1 not finite)"
    )
    assert main(["dump", "list", "--json", path]) == 0
    assert json.loads(capsys.readouterr().out)["calls"][0]["name"] == "aten::mul.Tensor"
    assert main(["dump", "to-npy", path]) == 0
    assert capsys.readouterr().out == f"Wrote 7 files to {tmp_path / 'npu-npy'}.\n"
    assert main(["dump", "to-hdf5", "--operator", "aten::mul.Tensor/2", "-o", str(tmp_path / "one.h5"), path]) == 0
    assert opened(tmp_path / "one.h5").rows(0)[0].occurrence == 1


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    path = samples.hdf5(tmp_path / "npu.h5")
    for write, place in ((to_hdf5, "out.h5"), (to_npy, "npy"), (to_text, "text"), (to_msprobe, "dump")):
        write(path, tmp_path / place)
        with pytest.raises(OutputError, match="is there already"):
            write(path, tmp_path / place)
        write(path, tmp_path / place, force=True)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    path = samples.hdf5(tmp_path / "npu.h5")
    (tmp_path / "file").write_text("")
    for write, name in ((to_hdf5, "x.h5"), (to_npy, "x"), (to_text, "x"), (to_msprobe, "x")):
        with pytest.raises(OutputError, match="cannot be written"):
            write(path, tmp_path / "file" / name)


def test_a_selection_of_nothing_and_a_dump_without_tensors_say_so(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match='no call that "aten::sin" means'):
        to_npy(samples.hdf5(tmp_path / "npu.h5"), tmp_path / "x", operator="aten::sin")
    with pytest.raises(RecordingError, match="no whole tensors"):
        to_hdf5(samples.msprobe(tmp_path / "dump"), tmp_path / "x.h5")
