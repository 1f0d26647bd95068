"""What a file of TensorFlow is, by its content and without TensorFlow; everything else is one sentence."""

from __future__ import annotations

import contextlib
import json
import sys
import zipfile
from pathlib import Path

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError, JumarError, UsageError
from jumar.cli.main import main
from jumar.tune.graph.capture.source import is_graph_source, load_graphs
from jumar.tune.graph.from_tensorflow.kinds import Recognised, is_tensorflow, recognised
from jumar.tune.model.errors import TuneError

DENSE = {"class_name": "Sequential", "config": {"layers": [{"class_name": "Dense", "config": {"name": "one"}}]}}
LAMBDA = {"class_name": "Sequential", "config": {"layers": [{"class_name": "Lambda", "config": {"name": "own"}}]}}


def part(number: int, content: bytes) -> bytes:
    """A field of protobuf that has bytes, of which there are fewer than 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def graph(*operators: str) -> bytes:
    nodes = [part(1, part(1, f"node_{place}".encode()) + part(2, one.encode())) for place, one in enumerate(operators)]
    return b"".join(nodes) + part(4, b"\x08\x01")


SAVED_MODEL = b"\x08\x01" + part(2, part(2, graph("Placeholder", "VarHandleOp")))


def keras(path: Path, config: object = DENSE, version: str = "3.15.1") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("metadata.json", json.dumps({"keras_version": version}))
        archive.writestr("model.weights.h5", b"")
    return path


def hdf5(path: Path, **attributes: object) -> Path:
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
    return path


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["net.pb", "net", "net.bin"])
def test_a_frozen_graph_is_known_by_its_nodes(tmp_path, name):
    path = written(tmp_path / name, graph("Placeholder", "MatMul"))
    assert is_graph_source(str(path))
    assert recognised(path) == Recognised(path=path, kind="graph")


def test_a_folder_and_the_file_in_it_are_a_saved_model(tmp_path):
    path = written(tmp_path / "net" / "saved_model.pb", SAVED_MODEL)
    assert is_graph_source(str(path.parent))
    assert recognised(path) == recognised(path.parent) == Recognised(path=path.parent, kind="saved_model")


@pytest.mark.parametrize("name", ["net.keras", "net", "net.h5"])
def test_a_file_of_keras_tells_its_version_whatever_its_name(tmp_path, name):
    path = keras(tmp_path / name)
    assert is_tensorflow(path)
    assert recognised(path) == Recognised(path=path, kind="keras", suffix=".keras", keras="3.15.1")


@pytest.mark.parametrize("name", ["net.h5", "net", "net.hdf5", "net.keras"])
def test_a_whole_model_in_hdf5_tells_its_version_whatever_its_name(tmp_path, name):
    path = hdf5(tmp_path / name, model_config=json.dumps(DENSE), keras_version="2.15.0")
    assert is_tensorflow(path)
    assert recognised(path) == Recognised(path=path, kind="keras", suffix=".h5", keras="2.15.0")


@pytest.mark.parametrize("content", [b"", b"\n", b"\nprint(1)\n", b"PK\x03\x04", b"plain", graph("Add")[:-6]])
def test_files_of_other_kinds_are_no_models_without_a_suffix_of_tensorflow(tmp_path, content):
    assert not is_tensorflow(written(tmp_path / "file.txt", content))
    assert not is_tensorflow(tmp_path)
    assert not is_tensorflow(tmp_path / "gone")


def refused(path: Path, kind: type[JumarError] = InputError) -> str:
    with pytest.raises(kind) as caught:
        load_graphs(str(path), folder=path.parent / "data")
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("net.om", b"IMOD\0", "compiled for one chip"),
        ("net.om", b"other", "an .onnx file, a frozen .pb file or a SavedModel folder"),
        ("net.bin", b"IMOD\0", "compiled for one chip"),
        ("net.pb", b"", "it has no nodes"),
        ("net.pb", graph("Placeholder", "MatMul")[:-6], "cut short"),
        ("net.pb", b"\xff" * 40, "damaged"),
        ("net.pb", graph("Placeholder", "VariableV2"), "not frozen: the values of its variables (node_1)"),
        ("net.pb", graph(*["VarHandleOp"] * 5), "(node_0, node_1, node_2, …)"),
        ("net.pb", SAVED_MODEL, "Give the whole folder"),
        ("net.pb", b"\x08\x07" + part(7, b"\x0a\x00"), "is an ONNX model. Name it .onnx"),
        ("saved_model.pb", SAVED_MODEL[:-3], "must be the graph of a SavedModel"),
        ("net.keras", graph("Placeholder"), "must be a zip file of Keras"),
        ("net.h5", b"", "must be an HDF5 file of Keras"),
        ("net.h5", b"\x89HDF\r\n\x1a\n", "must be an HDF5 file of Keras"),
        ("net.keras", b"PK\x03\x04", "must be a .keras file"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_the_reason(tmp_path, name, content, sentence):
    assert sentence in refused(written(tmp_path / name, content))


def test_a_cut_file_is_refused(tmp_path):
    for path in (keras(tmp_path / "a.keras"), hdf5(tmp_path / "a.h5", model_config=json.dumps(DENSE))):
        written(path, path.read_bytes()[:-20])
        assert "Save the model again." in refused(path)


def test_a_damaged_member_is_refused(tmp_path):
    path = keras(tmp_path / "a.keras")
    written(path, path.read_bytes().replace(b"Sequential", b"sequential", 1))
    assert "member config.json" in refused(path)


@pytest.mark.parametrize("config", [b"[", json.dumps(LAMBDA).encode()])
def test_a_config_that_is_no_json_or_holds_code_is_refused(tmp_path, config):
    path = hdf5(tmp_path / "a.h5", model_config=config)
    assert ("Python code in its Lambda layers (own)" if b"own" in config else "must be an HDF5 file") in refused(path)


def test_python_code_in_a_keras_file_is_not_run(tmp_path):
    assert "Python code in its Lambda layers (own)" in refused(keras(tmp_path / "a.keras", LAMBDA))


def test_weights_alone_are_refused(tmp_path):
    assert "no graph. Save the whole model" in refused(hdf5(tmp_path / "a.h5", layer_names="none"))


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path):
    assert "there is none" in refused(tmp_path / "gone.pb")
    (tmp_path / "folder.onnx").mkdir()
    assert "it is a folder" in refused(tmp_path / "folder.onnx")


@given(st.binary(max_size=60), st.integers(0, 40))
def test_any_bytes_are_a_graph_or_one_sentence(tmp_path_factory, content, cut):
    path = tmp_path_factory.getbasetemp() / "any.pb"
    for one in (content, graph("Placeholder", "MatMul")[:cut] + content):
        path.write_bytes(one)
        with contextlib.suppress(InputError):
            assert recognised(path).kind == "graph"


def frozen(tmp_path: Path) -> Path:
    return written(tmp_path / "net.pb", graph("Placeholder", "MatMul"))


def test_without_an_interpreter_the_error_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.delenv("JUMAR_TENSORFLOW", raising=False)
    (tmp_path / "tensorflow").mkdir()
    monkeypatch.syspath_prepend(tmp_path)  # a folder of that name is no package
    told = refused(frozen(tmp_path), TuneError)
    assert "needs tensorflow and tf2onnx" in told
    assert "python scripts/framework_environment.py tensorflow" in told
    assert "pip install 'jumar[tensorflow,tf2onnx]'" in told
    assert "JUMAR_TENSORFLOW" in told


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "python"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_a_program_that_is_no_python_with_tensorflow_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JUMAR_TENSORFLOW", "/no/python")
    assert "JUMAR_TENSORFLOW is /no/python, which is no program" in refused(frozen(tmp_path), UsageError)
    monkeypatch.setenv("JUMAR_TENSORFLOW", program(tmp_path, "not executable by itself"))
    assert "cannot be started" in refused(frozen(tmp_path), UsageError)
    monkeypatch.setenv("JUMAR_TENSORFLOW", program(tmp_path, "#!/bin/sh\necho out of memory >&2\nexit 3\n"))
    assert "ended, its last words: out of memory" in refused(frozen(tmp_path), TuneError)


def test_a_python_without_tensorflow_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JUMAR_TENSORFLOW", program(tmp_path, f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n'))
    told = refused(frozen(tmp_path), TuneError)
    assert "needs tensorflow, which cannot be imported" in told
    assert f"{tmp_path / 'python'} lacks it" in told
    assert "framework_environment.py tensorflow" in told


def test_the_command_refuses_a_compiled_model_in_one_sentence(tmp_path, capsys):
    assert main(["tune", str(written(tmp_path / "net.om", b"IMOD")), "--bank", str(tmp_path)]) == 2
    assert "net.om is compiled for one chip" in capsys.readouterr().err
