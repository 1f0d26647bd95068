"""ONNX models compute in PyTorch what ONNX's own cases say, and what ONNX Runtime computes."""

from __future__ import annotations

import warnings
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", reason="ONNX models need the package onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402 - after the skip

from jumar.base.errors import InputError, UsageError  # noqa: E402 - after the skip
from jumar.tune.graph.capture.data import load  # noqa: E402 - after the skip
from jumar.tune.graph.capture.source import load_graphs  # noqa: E402 - after the skip
from jumar.tune.graph.from_onnx.call import HANDLERS  # noqa: E402 - after the skip
from jumar.tune.graph.from_onnx.module import OnnxModule  # noqa: E402 - after the skip
from jumar.tune.graph.operators import function_of  # noqa: E402 - after the skip
from jumar.tune.model.errors import TuneError  # noqa: E402 - after the skip

KNOWN = {"ConstantOfShape", "Range", "NonZero"}
"""Operators of which every input must be known."""
SETTINGS = {"Clip", "Resize", "Pad", "OneHot", "Range", "Trilu", "CumSum", "Upsample", "Pow", "Dropout"}
"""Operators whose further inputs are settings, which models hold as weights."""
NOT_COMPARED = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "PyTorch leaves out a window that begins in the padding",
    "test_reduce_max_empty_set": "the maximum of nothing", "test_reduce_min_empty_set": "the minimum of nothing",
    "test_reduce_max_empty_set_bool": "the maximum of nothing",
    "test_top_k_same_values": "equal values have no order in PyTorch",
    "test_top_k_same_values_largest": "as above", "test_top_k_same_values_2d": "as above",
}  # fmt: skip
NUM_CASES_EACH = 6


@cache
def cases() -> dict[str, list[Any]]:
    """ONNX's own single-operator cases, by operator, of the dtypes that PyTorch computes with."""
    from onnx.backend.test.loader import load_model_tests

    found = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, while the cases are made
        for case in load_model_tests(kind="node"):
            if case.model is None or case.name in NOT_COMPARED or len(case.model.graph.node) != 1:
                continue
            if case.model.graph.node[0].op_type in HANDLERS and _is_usual(case):
                found[case.model.graph.node[0].op_type].append(case)
    return found


def _is_usual(case) -> bool:
    usual = {np.dtype(name) for name in ("float32", "float64", "int32", "int64", "bool", "uint8", "int8")}
    values = [one for inputs, outputs in case.data_sets or [] for one in [*inputs, *outputs]]
    return bool(values) and all(isinstance(one, (np.ndarray, np.generic)) and one.dtype in usual for one in values)


@pytest.mark.slow  # making the cases takes ten seconds and more
@pytest.mark.parametrize("operator", sorted(HANDLERS))
def test_an_operator_computes_what_its_own_cases_say(operator):
    chosen = cases().get(operator, [])[:NUM_CASES_EACH]
    if not chosen:
        pytest.skip("ONNX has no case of it")
    answers = [_compared(case, *values) for case in chosen for values in case.data_sets]
    assert operator == "Dropout" or "" in answers  # its cases are of training
    refusals = ("PyTorch has", "converted so far", "export the model for inference")
    assert all(answer == "" or any(one in answer for one in refusals) for answer in answers)


def _compared(case, inputs, outputs) -> str:
    """Compare; return why the case is not converted, in the module's own sentence."""
    model, given = _with_settings(case.model, inputs)
    try:
        found = OnnxModule(model)(*given)
    except TuneError as error:
        return str(error)
    for mine, theirs in zip(found, outputs, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=1e-5, err_msg=case.name)
        assert mine.numpy().dtype == np.asarray(theirs).dtype
    return ""


def _with_settings(model, inputs):
    """Return the model with its settings as weights, and the other inputs as tensors."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    settings = made.graph.node[0].op_type in SETTINGS
    given = []
    for place, (value, array) in enumerate(zip(made.graph.input, map(np.asarray, inputs), strict=True)):
        if made.graph.node[0].op_type in KNOWN or (place and (array.dtype == np.int64 or settings)):
            made.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            given.append(torch.tensor(array))
    return made, given


def small_model(batch: int | str = 2):
    """A convolution network as exporters write it: shapes are computed, biases and scales are weights."""
    generator = np.random.default_rng(0)
    weights = {
        "w": generator.normal(size=(4, 3, 3, 3)), "b": generator.normal(size=4), "scale": generator.normal(size=4),
        "shift": generator.normal(size=4), "mean": generator.normal(size=4), "var": generator.uniform(0.5, 2, size=4),
        "fc": generator.normal(size=(4, 5)), "half": np.array(0.5),
    }  # fmt: skip
    floats = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    whole = [numpy_helper.from_array(np.array(value), name) for name, value in (("zero", 0), ("minus", [-1]))]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Shape", ["p"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "first"], ["rows1"]),
        helper.make_node("Concat", ["rows1", "minus"], ["shape"], axis=0),
        helper.make_node("Reshape", ["p", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "fc"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [*floats, *whole, numpy_helper.from_array(np.array([0]), "first")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_model_computes_what_onnx_runtime_computes(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path)
    (found,) = load_graphs(str(path), folder=tmp_path)
    tensors, graph = load(found.data), found.graph
    mine = function_of(graph, {place: tensors[place] for place in graph.constants})(tensors[0])[0]
    (theirs,) = runtime.InferenceSession(str(path)).run(None, {"x": tensors[0].numpy()})
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=1e-6)
    assert [node.operator for node in graph.nodes if "size" in node.operator or "cat" in node.operator] == []


def one_node(kind: str, shape: list[int], opset: int = 18, *more: np.ndarray, **attributes: Any):
    """Return a model of one node, whose inputs but the first are weights; an empty one is left out."""
    names = [f"more{place}" if array.size else "" for place, array in enumerate(more)]
    weights = [numpy_helper.from_array(array, name) for array, name in zip(more, names, strict=True) if name]
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *names], ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees_with_onnx_runtime(model: Any, shape: list[int], tolerance: float = 1e-5) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    (theirs,) = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (mine,) = OnnxModule(model)(torch.tensor(x))
    assert tuple(mine.shape) == theirs.shape
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=tolerance)


WAYS = [
    {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    for coordinates in ("half_pixel", "asymmetric", "align_corners")
    for rounding in ("floor", "round_prefer_floor", "ceil", "round_prefer_ceil")
] + [{"mode": "linear", "coordinate_transformation_mode": "half_pixel"}]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))
def test_scales_give_the_sizes_and_places_that_they_give_in_onnx_runtime(way):
    for size in (1, 3, 7, 10, 29, 100):
        for scale in (0.1, 0.29, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.7, 2.0, 2.5, 1 / 3):
            new = int(np.float32(size) * np.float32(scale))
            if new < 1 or (way["mode"] == "linear" and new == size):
                continue
            shape, scales = [1, 2, size, 10], np.array([1, 1, scale, 0.7], np.float32)
            nothing = np.array([], np.float32)
            # Coordinates are rounded in another order, and of large images there are large ones.
            agrees_with_onnx_runtime(one_node("Resize", shape, 18, nothing, scales, **way), shape, 1e-4)


def test_a_scale_that_leaves_a_size_as_it_is_is_no_copy():
    shape, scales = [1, 2, 3, 10], np.array([1, 1, 1.3, 0.7], np.float32)
    model = one_node("Resize", shape, 18, np.array([], np.float32), scales, mode="linear")
    with pytest.raises(TuneError, match=r"Resize scales a dimension by 1.3 to the size it has"):
        OnnxModule(model)(torch.zeros(shape))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_give_the_places_that_they_give_in_onnx_runtime(mode):
    for size in (3, 7, 10, 29, 100):
        for new in (1, 4, 9, 29, 50, 201):
            shape, sizes = [1, 2, size, 10], np.array([1, 2, new, 7])
            nothing = np.array([], np.float32)
            agrees_with_onnx_runtime(one_node("Resize", shape, 18, nothing, nothing, sizes, mode=mode), shape)


@pytest.mark.parametrize(("kind", "opset", "scales"), [("Upsample", 9, (1.3, 2.5)), ("Resize", 10, (0.7, 0.3))])
def test_older_resizing_is_what_it_is_in_onnx_runtime(kind, opset, scales):
    for size in (3, 10, 29):
        shape = [1, 2, size, 10]
        agrees_with_onnx_runtime(one_node(kind, shape, opset, np.array([1, 1, *scales], np.float32)), shape)


def test_normalisation_over_an_even_number_of_channels_is_refused():
    shape = [1, 7, 3, 3]
    agrees_with_onnx_runtime(one_node("LRN", shape, 13, size=3, alpha=0.5), shape)
    with pytest.raises(TuneError, match=r"LRN.* sums over 4 channels.*odd size"):
        OnnxModule(one_node("LRN", shape, 13, size=4))(torch.zeros(shape))


def test_changing_sizes_are_refused_without_gears_and_specialised_with_them(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(small_model("batch"), path)
    with pytest.raises(TuneError, match=r'name them: --input-shape "x:1,3,8,8"'):
        load_graphs(str(path), folder=tmp_path)
    found = load_graphs(str(path), folder=tmp_path, input_shape="x:1,3,8,8;4,3,8,8")
    assert [one.graph.inputs[0].shape[0] for one in found] == [1, 4]
    assert {finding.code for one in found for finding in one.findings} == {"JM514"}
    with pytest.raises(UsageError, match=r'takes "\?,3,8,8"'):
        load_graphs(str(path), folder=tmp_path, input_shape="x:1,4,8,8")
    with pytest.raises(UsageError, match="--input-shape names z, and the inputs of"):
        load_graphs(str(path), folder=tmp_path, input_shape="z:1,3,8,8")


def test_operators_that_are_not_converted_are_named(tmp_path):
    model = small_model()
    model.graph.node[2].op_type, model.graph.node[-1].domain = "NonMaxSuppression", "com.example"
    with pytest.raises(TuneError, match=r"not converted to PyTorch's: NonMaxSuppression, com\.example\.Softmax;"):
        OnnxModule(model)


@pytest.mark.parametrize("content", [b"", b"\x08not a model", b"\xff" * 100])
def test_a_file_that_is_no_model_is_one_sentence(tmp_path, content):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="must be an ONNX model"):
        load_graphs(str(path), folder=tmp_path)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_of_every_unsigned_type_are_shifted(direction, name):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(name))
    bits = np.dtype(name).itemsize * 8
    value = np.repeat(np.array([0, 1, 1 << (bits - 1), (1 << bits) - 1, (1 << bits) // 3], name), 4)
    by = np.tile(np.array([0, 1, bits // 2, bits - 1], name), 5)
    node = helper.make_node("BitShift", ["x", "by"], ["y"], direction=direction)
    x, shift, y = (helper.make_tensor_value_info(one, kind, [20]) for one in ("x", "by", "y"))
    model = helper.make_model(helper.make_graph([node], "g", [x, shift], [y]))
    made = OnnxModule(model)(torch.from_numpy(value), torch.from_numpy(by))[0].numpy()
    expected = value << by if direction == "LEFT" else value >> by
    assert made.dtype == expected.dtype
    assert made.tolist() == expected.tolist()
