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

from jumar.errors import UsageError  # noqa: E402 - after the skip
from jumar.tune.errors import TuneError  # noqa: E402 - after the skip
from jumar.tune.graph.from_onnx.module import OnnxModule  # noqa: E402 - after the skip
from jumar.tune.graph.source import load_graphs  # noqa: E402 - after the skip

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


def saved(folder: Path, shape: Sequence[Any], name: str = "x") -> str:
    path = folder / "net.onnx"
    onnx.save(model_of([helper.make_node("Relu", [name], ["y"])], shape, name=name), path)
    return str(path)
