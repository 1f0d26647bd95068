"""ONNX models: inputs that are large or left out, dtypes NumPy has not, files that say little of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", reason="ONNX models need the package onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402 - after the skip

from jumar.base.errors import UsageError  # noqa: E402 - after the skip
from jumar.tune.graph.capture.source import load_graphs  # noqa: E402 - after the skip
from jumar.tune.graph.from_onnx.module import OnnxModule  # noqa: E402 - after the skip
from jumar.tune.model.errors import TuneError  # noqa: E402 - after the skip

DRAWN = np.random.default_rng(0)


def model_of(
    nodes: Sequence[Any], shape: Sequence[Any], weights: Sequence[Any] = (), rank: int | None = None,
    opset: int = 18, kind: int = TensorProto.FLOAT, name: str = "x",
) -> Any:  # fmt: skip
    """Return a model of these nodes from `x` to `y`, which has as many dimensions unless `rank` says how many."""
    given = helper.make_tensor_value_info(name, kind, shape)
    made = helper.make_tensor_value_info("y", kind, [None] * (len(shape) if rank is None else rank))
    graph = helper.make_graph(list(nodes), "net", [given], [made], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(DRAWN.normal(size=shape).astype(np.float32) / 4, name)


def agrees(model: Any, x: np.ndarray, tolerance: float = 1e-5) -> None:
    """Compare with ONNX Runtime, shapes and dtypes, too."""
    runtime = pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for mine, theirs in zip(OnnxModule(model)(torch.tensor(x)), session.run(None, {"x": x}), strict=True):
        assert (tuple(mine.shape), mine.numpy().dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=tolerance)


def numbers(*shape: int) -> np.ndarray:
    return DRAWN.normal(size=shape).astype(np.float32)


def test_a_bias_of_many_elements_is_added():
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    agrees(model_of(nodes, [2, 3], [weight("w", 3, 5000), weight("b", 5000)]), numbers(2, 3))


def test_a_recurrent_layer_with_a_bias_of_many_elements_adds_it():
    hidden = 520
    weights = [weight("w", 1, 4 * hidden, 3), weight("r", 1, 4 * hidden, hidden), weight("b", 1, 8 * hidden)]
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=hidden)]
    agrees(model_of(nodes, [2, 1, 3], weights, rank=4), numbers(2, 1, 3), 1e-4)


def test_an_output_that_is_left_out_is_no_input_of_later_nodes():
    weights = [weight("w", 1, 20, 3), weight("r", 1, 20, 5), weight("b", 1, 40), weight("w2", 1, 20, 5)]
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "h"], hidden_size=5),
        helper.make_node("LSTM", ["h", "w2", "r", "b", "", "h"], ["y"], hidden_size=5),
    ]
    agrees(model_of(nodes, [4, 2, 3], weights, rank=4), numbers(4, 2, 3))


def test_an_output_that_is_left_out_is_passed_over_where_all_inputs_are_known():
    nodes = [
        helper.make_node("LayerNormalization", ["v", "w"], ["n", "", "s"]),
        helper.make_node("Sum", ["x", "n", "s"], ["y"]),
    ]
    agrees(model_of(nodes, [4], [weight("v", 4), weight("w", 4)]), numbers(4))


def test_constants_of_bfloat16_and_of_eight_bit_floats_are_read():
    half = helper.make_tensor("half", TensorProto.BFLOAT16, [2], [0.5, -3.0])
    nodes = [helper.make_node("Constant", [], ["c"], value=half), helper.make_node("Mul", ["x", "c"], ["y"])]
    (made,) = OnnxModule(model_of(nodes, [2], kind=TensorProto.BFLOAT16))(torch.ones(2, dtype=torch.bfloat16))
    assert (made.dtype, made.tolist()) == (torch.bfloat16, [0.5, -3.0])
    small = helper.make_tensor("w", TensorProto.FLOAT8E4M3FN, [3], [1.5, 0.25, -3.0])
    scale = numpy_helper.from_array(np.array(2.0, np.float32), "s")
    zero = helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0])
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])]
    (made,) = OnnxModule(model_of(nodes, [3], [small, scale, zero], opset=19))(torch.zeros(3))
    assert made.tolist() == [3.0, 0.5, -6.0]


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_weights_of_four_bits_are_refused_in_one_sentence(tmp_path: Path, kind: str):
    weights = [helper.make_tensor("w", getattr(TensorProto, kind), [2, 2], [1, 2, 3, 4]), weight("s")]
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    path = tmp_path / "net.onnx"
    onnx.save(model_of(nodes, [1, 2], weights, opset=21), path)
    with pytest.raises(TuneError, match=f"has a tensor of {kind}, which PyTorch does not have"):
        load_graphs(str(path), folder=tmp_path)


def test_large_integers_are_dequantized_to_half_precision():
    scale = numpy_helper.from_array(np.array(0.01, np.float16), "s")
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT32),
        helper.make_node("DequantizeLinear", ["i", "s"], ["y"]),
    ]
    model = model_of(nodes, [2], [scale], opset=19)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    agrees(model, np.array([100000, -70000], np.float32), 0.5)


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceSumSquare", "ReduceProd"])
def test_sums_of_integers_keep_their_dtype(kind):
    model = model_of([helper.make_node(kind, ["x"], ["y"])], [2, 3], kind=TensorProto.INT32)
    agrees(model, np.array([[1, -2, 3], [4, 5, -6]], np.int32))


def test_a_constant_that_is_turned_round_is_read():
    settings = {"start": -1, "end": -(2**40), "axis": 0, "step": -1}
    weights = [numpy_helper.from_array(np.array([value]), name) for name, value in settings.items()]
    nodes = [helper.make_node("Slice", ["v", *settings], ["w"]), helper.make_node("Mul", ["x", "w"], ["y"])]
    agrees(model_of(nodes, [4], [weight("v", 4), *weights]), numbers(4))


def test_integers_are_bounded_by_the_greatest_there_is():
    bounds = [numpy_helper.from_array(np.array(value), name) for value, name in ((2**53 + 1, "a"), (2**63 - 1, "b"))]
    model = model_of([helper.make_node("Clip", ["x", "a", "b"], ["y"])], [2], bounds, kind=TensorProto.INT64)
    agrees(model, np.array([0, 2**62]))


def test_small_numbers_before_great_ones_are_in_sums_that_leave_the_last_out():
    axis = [numpy_helper.from_array(np.array(-1), "a")]
    for reverse in (0, 1):
        nodes = [helper.make_node("CumSum", ["x", "a"], ["y"], exclusive=1, reverse=reverse)]
        x = np.array([[1, 1e30, 2, np.inf], [np.inf, 3, 1e30, 1]], np.float32)
        expected = np.array([[0, 1, 1e30, 1e30], [0, np.inf, np.inf, np.inf]], np.float32)
        if reverse:
            expected = np.array([[np.inf, np.inf, np.inf, 0], [1e30, 1e30, 1, 0]], np.float32)
        (made,) = OnnxModule(model_of(nodes, [2, 4], axis))(torch.tensor(x))
        np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize(("width", "step", "pads"), [(2, 2, [0, 1]), (3, 3, [0, 2]), (3, 2, [1, 2])])
def test_no_maximum_is_taken_of_the_padding_behind(width, step, pads):
    way = {"kernel_shape": [width], "strides": [step], "pads": pads, "ceil_mode": 1}
    for size in range(3, 8):
        nodes = [helper.make_node("MaxPool", ["x"], ["y"], **way)]
        agrees(model_of(nodes, [1, 2, size]), numbers(1, 2, size))


def test_reflecting_nothing_is_a_copy():
    pads = [numpy_helper.from_array(np.zeros(6, np.int64), "p")]
    nodes = [helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect")]
    agrees(model_of(nodes, [1, 2, 3], pads), numbers(1, 2, 3))


def test_a_power_has_the_dimensions_of_its_exponent():
    exponent = [numpy_helper.from_array(np.array([[2.0]], np.float32), "e")]
    agrees(model_of([helper.make_node("Pow", ["x", "e"], ["y"])], [3], exponent, rank=2), numbers(3))


def saved(folder: Path, shape: Sequence[Any], name: str = "x") -> str:
    path = folder / "net.onnx"
    onnx.save(model_of([helper.make_node("Relu", [name], ["y"])], shape, name=name), path)
    return str(path)


def test_a_size_of_minus_one_is_one_that_changes(tmp_path: Path):
    path = saved(tmp_path, [-1, 3])
    with pytest.raises(TuneError, match=r'\(x: dimension 0\).*name them: --input-shape "x:1,3"'):
        load_graphs(path, folder=tmp_path)
    with pytest.raises(UsageError, match=r'takes "\?,3"'):
        load_graphs(path, folder=tmp_path, input_shape="x:2,4")


def test_an_input_whose_name_is_a_number_is_given_sizes_as_the_message_says(tmp_path: Path):
    path = saved(tmp_path, ["batch", 3], "0")
    with pytest.raises(TuneError, match='--input-shape "0:1,3"'):
        load_graphs(path, folder=tmp_path)
    found = load_graphs(path, folder=tmp_path, input_shape="0:1,3;4,3")
    assert [one.graph.inputs[0].shape for one in found] == [(1, 3), (4, 3)]


def test_a_model_that_is_too_large_for_one_message_is_checked_as_a_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "net.onnx"
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [2, 3], [weight("w", 3, 500)])
    onnx.save(model, path, save_as_external_data=True, location="w.data")
    monkeypatch.setattr(onnx.checker, "MAXIMUM_PROTOBUF", 1000)
    (found,) = load_graphs(str(path), folder=tmp_path)
    assert [node.operator for node in found.graph.nodes] == ["aten::matmul"]


def test_another_dtype_than_the_models_is_refused(tmp_path: Path):
    path = saved(tmp_path, [2, 3])
    load_graphs(path, folder=tmp_path, input_shape="x:2,3:float32")
    with pytest.raises(UsageError, match="gives x the dtype float16, and the model takes float32"):
        load_graphs(path, folder=tmp_path, input_shape="x:2,3:float16")


def test_a_normalisation_with_outputs_of_training_is_refused():
    weights = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in ("w", "b", "m", "v")]
    given, made = ["x", "w", "b", "m", "v"], ["y", "m2", "v2", "m3", "v3"]
    model = model_of([helper.make_node("BatchNormalization", given, made)], [2, 3, 4], weights, opset=9)
    with pytest.raises(TuneError, match="BatchNormalization is in training mode"):
        OnnxModule(model)(torch.ones(2, 3, 4))


def test_a_single_pixel_is_normalised():
    weights = [weight("w", 3), weight("b", 3)]
    nodes = [helper.make_node("InstanceNormalization", ["x", "w", "b"], ["y"])]
    agrees(model_of(nodes, [2, 3, 1, 1], weights), numbers(2, 3, 1, 1))


def test_two_inputs_of_one_size_have_values_of_their_own(tmp_path: Path):
    nodes = [helper.make_node("Sub", ["x", "z"], ["d"]), helper.make_node("Div", ["d", "d"], ["y"])]
    model = model_of(nodes, [2, 3])
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3]))
    onnx.save(model, tmp_path / "net.onnx")
    (found,) = load_graphs(str(tmp_path / "net.onnx"), folder=tmp_path)
    assert not found.reason_not_tuned  # 0 / 0 everywhere, if they were equal
