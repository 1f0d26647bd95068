"""Models of TensorFlow are converted in its own environment, checked against it, and captured as ONNX files are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.base.errors import UsageError
from jumar.tune.graph.capture import data
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.capture.source import load_graphs
from jumar.tune.graph.operators import function_of
from jumar.tune.model.errors import TuneError

pytest.importorskip("onnx", reason="ONNX models need the package onnx")
pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
pytestmark = pytest.mark.slow

WRITER = Path(__file__).parents[1] / "tensorflow_models.py"
IMAGES = "2,8,8,3"
BOTH = "ids:2,6;mask:2,6,1"


@pytest.fixture(scope="module", params=["tensorflow", "new_tensorflow"])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model in files of every kind, and JUMAR_TENSORFLOW."""
    python = request.getfixturevalue(request.param)
    if subprocess.run([python, "-c", "import tf2onnx"], check=False, capture_output=True).returncode:
        pytest.skip(f"{python} has no tf2onnx: python scripts/framework_environment.py makes that environment")
    folder = tmp_path_factory.mktemp(request.param)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run([python, WRITER, folder], check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JUMAR_TENSORFLOW", str(python))
        yield folder


def loaded(path: Path, folder: Path, shape: str = "") -> list[Captured]:
    return load_graphs(str(path), folder=folder, input_shape=shape)


def values(one: Captured) -> list[float]:
    tensors = data.load(one.data)
    call = function_of(one.graph, {place: tensors[place] for place in one.graph.constants})
    return [float(part.abs().sum()) for part in call(*(tensors[place] for place in one.graph.variables))]


def test_every_kind_of_file_gives_the_same_numbers(models, tmp_path, capfd):
    (graph,) = loaded(models / "cnn.pb", tmp_path / "graph")
    told = capfd.readouterr().err
    assert "cnn.pb: ONNX Runtime computes TensorFlow's outputs (Identity): greatest difference" in told
    assert (graph.name, graph.origin) == ("cnn", str(models / "cnn.pb"))
    for name in ("cnn_saved", "cnn.keras", "cnn.h5"):
        (one,) = loaded(models / name, tmp_path / name, IMAGES)
        assert one.name == f"{Path(name).stem} 2x8x8x3"
        assert values(one) == pytest.approx(values(graph), rel=1e-5)


@pytest.mark.parametrize("name", ["two_saved", "two.keras"])
def test_inputs_have_their_names_and_dtypes(models, tmp_path, name):
    (one,) = loaded(models / name, tmp_path, BOTH)
    found = {(one.graph.inputs[place].shape, one.graph.inputs[place].dtype) for place in one.graph.variables}
    assert found == {((2, 6), "int32"), ((2, 6, 1), "float32")}
    assert len(one.graph.outputs) == 2


def test_gears_are_one_graph_each_and_a_tensor_name_is_its_input(models, tmp_path):
    found = loaded(models / "mlp.pb", tmp_path, "x:0:1,16;8,16")
    assert [one.name for one in found] == ["mlp 1x16", "mlp 8x16"]
    assert [one.graph.inputs[one.graph.variables[0]].shape for one in found] == [(1, 16), (8, 16)]
    assert {finding.code for one in found for finding in one.findings} == {"JM514"}


def test_outputs_are_what_nobody_reads_and_defaults_are_taken(models, tmp_path):
    (one,) = loaded(models / "in_two.pb", tmp_path)
    assert (len(one.graph.variables), len(one.graph.outputs)) == (1, 3)


def test_a_saved_model_of_tensorflow_1_is_its_signature(models, tmp_path, capfd):
    (one,) = loaded(models / "old_saved", tmp_path, "given:3,4")
    assert [one.graph.inputs[place].shape for place in one.graph.variables] == [(3, 4)]
    assert "(product)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("of_no_onnx.pb", "has operators that tf2onnx cannot write as ONNX: Igamma;"),
        ("random.pb", "gives other values of y in each call"),
        ("without_inputs.pb", "no output that is computed from a Placeholder"),
        ("of_texts.pb", "takes an input words of string"),
        ("of_any_rank.pb", "how many dimensions its input x has"),
        (
            "mlp.pb",
            'takes changing sizes (x: dimension 0), and sizes are tuned one by one; name them: --input-shape "x',
        ),
    ],
)
def test_what_cannot_be_converted_is_one_sentence(models, tmp_path, name, sentence):
    with pytest.raises(TuneError) as caught:
        loaded(models / name, tmp_path)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("shape", ["y:2,16", "x:2,17", "x:2,4,4"])
def test_other_inputs_and_sizes_are_refused(models, tmp_path, shape):
    with pytest.raises(UsageError, match="--input-shape"):
        loaded(models / "mlp.pb", tmp_path, shape)


def test_a_saved_model_without_its_variables_is_one_sentence(models, tmp_path):
    folder = tmp_path / "cnn"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes((models / "cnn_saved" / "saved_model.pb").read_bytes())
    with pytest.raises(TuneError, match="cannot be converted: "):
        loaded(folder, tmp_path / "data", IMAGES)


def test_python_code_and_weights_alone_are_refused(models, tmp_path):
    for name, sentence in {
        "code.keras": "Lambda layers .own.",
        "only.weights.h5": "no graph",
        "with_variables.pb": "not frozen",
    }.items():
        with pytest.raises(Exception, match=sentence):
            loaded(models / name, tmp_path)


def test_the_command_tunes_a_frozen_graph(models, tmp_path):
    words = ["tune", models / "cnn.pb", "--job-type", "1", "--trials", "2", "--bank", tmp_path]
    environment = {**os.environ, "ASCEND_WORK_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "jumar", *words], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "tf2onnx" in done.stderr
    assert list(tmp_path.glob("aoe_result_sgat_*.json"))
