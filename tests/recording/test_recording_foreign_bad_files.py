"""Files that are cut short, damaged, foreign or meant to do harm: one sentence, and nothing in them is run."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import foreign_samples as samples
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import RecordingError
from jumar.recording.foreign import open_foreign
from jumar.recording.foreign.recognise import opened


def read_all(path: Path) -> None:
    """Read everything that is in a dump."""
    dump = open_foreign(path)
    if dump is None:
        return
    for rank in dump.ranks:
        for step in dump.steps(rank):
            for row in dump.rows(step, rank):
                if dump.has_tensors():
                    dump.tensors(row)


def complaint(path: Path) -> str:
    """Return the sentence with which a dump is refused, or nothing; any other error is the test's failure."""
    try:
        read_all(path)
    except RecordingError as error:
        return str(error)
    return ""


def refused(path: Path) -> str:
    text = complaint(path)
    assert text
    assert "\n" not in text
    return text


MAKERS: dict[str, Callable[[Path], Path]] = {
    "x.h5": lambda folder: samples.hdf5(folder / "x.h5"),
    "x.pth": lambda folder: samples.checkpoint(folder / "x.pth"),
    "step0/rank0/dump.json": samples.msprobe,
    "step0/rank0/stack.json": samples.msprobe,
    "step0/rank0/dump_tensor_data/Torch.exp.0.forward.output.0.pt": lambda folder: samples.msprobe(folder, files=True),
    "rank0/torch_api_dump_info.csv": samples.troubleshooter,
    "rank0/torch_api_dump/NN_Linear_0_forward_output.npy": samples.troubleshooter,
    "20240808163566/0/Pooling.pool1.1147.1589195081588018.output.0.npy": samples.npy,
}
"""The file that is damaged to what makes the dump; both are read from the folder, or the file itself."""


@pytest.mark.parametrize("name", MAKERS)
@settings(derandomize=True, max_examples=25, deadline=None)
@given(cut=st.floats(0, 0.999), flip=st.floats(0, 0.999), bits=st.integers(1, 255))
def test_a_damaged_file_is_refused_or_read_and_nothing_else(
    name: str, cut: float, flip: float, bits: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = MAKERS[name](folder)
    file = folder / name
    data = bytearray(file.read_bytes())
    file.write_bytes(data[: int(len(data) * cut)])
    for damage in ("cut", "flip"):
        if damage == "flip":
            data[int(len(data) * flip)] ^= bits
            file.write_bytes(data)
        assert "\n" not in complaint(path)
    shutil.rmtree(folder)


def test_code_in_pickles_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "harm"
    torch.save({"weight": samples.Evil(mark)}, tmp_path / "a.pth")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(samples.Evil(mark)))
    np.save(tmp_path / "c.npy", np.array([samples.Evil(mark)], dtype=object), allow_pickle=True)
    dump = samples.msprobe(tmp_path / "dump", files=True)
    file = dump / "step0" / "rank0" / "dump_tensor_data" / "Torch.exp.0.forward.output.0.pt"
    torch.save(samples.Evil(mark), file)
    for path in (tmp_path / "a.pth", tmp_path / "b.pt", tmp_path / "c.npy", dump):
        assert "loading it can run code" in refused(path) or "no .npy file of numbers" in refused(path)
    assert not mark.exists()


def test_files_of_no_known_format_are_refused_with_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt is not a recording, HDF5 of torch.utils.dumper, msprobe's dump.json" in refused(
        tmp_path / "notes.txt"
    )
    (tmp_path / "empty.h5").write_bytes(b"")
    assert "It is empty." in refused(tmp_path / "empty.h5")


def test_an_hdf5_file_without_operators_is_refused(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["weights/dense"] = np.ones(2)
    assert "holds no operators in the form /operator/number/input" in refused(tmp_path / "x.h5")


def test_binary_dumps_are_refused_with_the_command_that_converts_them(tmp_path: Path) -> None:
    (tmp_path / "Add.add_1.3.7.1589195081588018").write_bytes(b"\x00\x01")
    assert "run `msaccucmp.py convert -d" in refused(tmp_path)
    assert "run `msaccucmp.py convert -d" in refused(tmp_path / "Add.add_1.3.7.1589195081588018")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "has no table named data"),
        ({"data": []}, "has no table named data"),
        ({"data": {"Torch.exp.0.forward": 3}}, "that is no table"),
        ({"data": {"Torch.exp.0.forward": {"output": [{"type": "t", "dtype": 1, "shape": ["x"]}]}}}, "cannot be read"),
    ],
)
def test_a_dump_json_of_another_form_is_refused(tmp_path: Path, document: object, sentence: str) -> None:
    (tmp_path / "dump.json").write_text(json.dumps(document))
    assert sentence in refused(tmp_path)


def test_a_folder_with_nothing_known_in_it_is_no_dump(tmp_path: Path) -> None:
    assert open_foreign(tmp_path) is None
    with pytest.raises(RecordingError, match=r"is not a recording: it has no run\.json"):
        opened(tmp_path)
    with pytest.raises(RecordingError, match="is not a folder"):
        opened(tmp_path / "missing")


def test_a_mindspore_checkpoint_that_is_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"\x0a\x20\x0a\x04name\x12\x30\x08\x04")
    assert "no MindSpore checkpoint" in refused(tmp_path / "a.ckpt")


def test_nan_and_infinity_in_json_are_numbers(tmp_path: Path) -> None:
    text = (
        '{"data": {"Torch.exp.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2], '
    )
    text += '"Max": NaN, "Min": -Infinity, "Mean": null, "Norm": NaN}]}}}'
    (tmp_path / "dump.json").write_text(text)
    dump = open_foreign(tmp_path)
    assert dump is not None
    (row,) = dump.rows(0)
    assert (row.outputs[0].num_nan, row.outputs[0].minimum, row.outputs[0].dtype) == (1, None, "float16")
