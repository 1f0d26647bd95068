"""A converted model that computes something else than TensorFlow is refused, and the output is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jumar.tune.graph.from_tensorflow.agreement import check_agreement, difference
from jumar.tune.model.errors import TuneError

X = np.linspace(-2, 2, 6, dtype="f").reshape(2, 3)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    """Gives `twice`, float32, and `place`, int64, of `x`; float32, [2, 3]."""
    onnx = pytest.importorskip("onnx", reason="ONNX models need the package onnx")
    pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
    make = onnx.helper
    floats, integers = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes = [make.make_node("Add", ["x", "x"], ["twice"]), make.make_node("ArgMax", ["x"], ["place"], axis=1)]
    outputs = [
        make.make_tensor_value_info("twice", floats, [2, 3]),
        make.make_tensor_value_info("place", integers, [2, 1]),
    ]
    made = make.make_graph(nodes, "net", [make.make_tensor_value_info("x", floats, [2, 3])], outputs)
    model = make.make_model(made, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def checked(onnx_file: Path, twice: np.ndarray, place: np.ndarray) -> float:
    given = {"x": X, "folded away": X}
    return check_agreement(Path("net.pb"), onnx_file, given, [twice, place], ["double", "where"])


PLACE = np.full((2, 1), 2, "int64")


def test_equal_outputs_and_rounding_agree(onnx_file):
    assert checked(onnx_file, X * 2, PLACE) == 0
    assert checked(onnx_file, X * np.float32(2.00001), PLACE) == pytest.approx(5e-6, rel=0.1)


@pytest.mark.parametrize(
    ("twice", "place", "told"),
    [
        (X * 2.01, PLACE, "output double differs from TensorFlow's by 0.00498 of the greatest value, where 0.001"),
        (X[:1] * 2, PLACE, "output double differs"),
        (X * np.nan, PLACE, "output double differs"),
        (X * 2, PLACE - 1, "output where differs from TensorFlow's by inf of the greatest value, where 0 is allowed"),
    ],
)
def test_the_output_beyond_tolerance_is_named(onnx_file, twice, place, told):
    with pytest.raises(TuneError, match="must not be tuned as ONNX") as caught:
        checked(onnx_file, twice.astype("f"), place)
    assert told in str(caught.value)


def test_what_onnx_runtime_does_not_run_is_one_sentence(tmp_path):
    pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
    (tmp_path / "net.onnx").write_bytes(b"nothing")
    with pytest.raises(TuneError, match="ONNX Runtime does not run what tf2onnx wrote"):
        checked(tmp_path / "net.onnx", X, PLACE)


def test_numbers_that_are_not_finite_must_be_in_the_same_places():
    theirs = np.array([1, np.nan, np.inf], "f")
    assert difference(theirs.copy(), theirs) == 0
    assert difference(np.array([1, np.nan, -np.inf], "f"), theirs) == float("inf")
    assert difference(np.array([np.nan, 1, np.inf], "f"), theirs) == float("inf")
    assert difference(np.zeros(2, "f"), np.zeros(2, "f")) == 0
    assert difference(np.ones(2, "f"), np.zeros(2, "f")) == 1
    assert difference(np.zeros(2, "f"), np.zeros(2, "d")) == float("inf")
