"""ONNX models with graphs in their nodes compute what ONNX Runtime computes, or say in a sentence why they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", reason="ONNX models need the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="compares with ONNX Runtime")

from onnx import parser  # noqa: E402 - after the skip

from jumar.tune.graph.capture.data import load  # noqa: E402 - after the skip
from jumar.tune.graph.capture.source import load_graphs  # noqa: E402 - after the skip
from jumar.tune.graph.operators import function_of  # noqa: E402 - after the skip
from jumar.tune.model.errors import TuneError  # noqa: E402 - after the skip

CHOICE = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[3] x) => (float[3] y)
    <float[3] w = {1.0, 2.0, 3.0}>
    {
        total = ReduceSum <keepdims = 0> (x)
        zero = Constant <value = float {0.0}> ()
        cond = Greater (total, zero)
        y = If (cond) <
            then_branch = one () => (float[3] a) { a = Mul (x, w) },
            else_branch = two () => (float[3] b) <float[3] v = {5.0, 6.0, 7.0}> { s = Sub (x, w)  b = Add (s, v) }
        >
    }
"""
SHAPES = CHOICE.replace("two () => (float[3] b)", "two () => (float[6] b)").replace(
    "b = Add (s, v)", "b = Concat <axis = 0> (s, v)"
)
STEPS = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[2] x) => (float[2] y, float[4, 2] all)
    <int64 n = {4}, bool go = {1}, float[2] w = {0.5, 2.0}>
    {
        y, all = Loop (n, go, x) <body = step (int64 i, bool c, float[2] h) => (bool d, float[2] k, float[2] s)
            { d = Identity (c)  f = Cast <to = 1> (i)  m = Mul (h, w)  k = Add (m, f)  s = Neg (k) }
        >
    }
"""
UNTIL = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[2] x) => (float[2] y)
    <int64 n = {6}, bool go = {1}, float limit = {10.0}>
    {
        y = Loop (n, go, x) <body = step (int64 i, bool c, float[2] h) => (bool d, float[2] k)
            { k = Add (h, h)  t = ReduceSum <keepdims = 0> (k)  d = Less (t, limit) }
        >
    }
"""
SCAN = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[2] h0, float[5, 2] x) => (float[2] h, float[5, 2] y)
    <float[2] w = {0.5, 2.0}>
    {
        h, y = Scan <num_scan_inputs = 1, scan_input_directions = [1],
            body = step (float[2] a, float[2] b) => (float[2] c, float[2] d)
            { m = Mul (a, w)  c = Add (m, b)  d = Tanh (c) }
        > (h0, x)
    }
"""


def written(text: str, folder: Path) -> Path:
    path = folder / "net.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def compared(text: str, folder: Path, *given: list) -> None:
    path = written(text, folder)
    (captured,) = load_graphs(str(path), folder=folder)
    tensors, graph = load(captured.data), captured.graph
    function = function_of(graph, {place: tensors[place] for place in graph.constants})
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for values in given:
        inputs = [np.asarray(value, np.float32) for value in values]
        names = [one.name for one in session.get_inputs()]
        theirs = session.run(None, dict(zip(names, inputs, strict=True)))
        # The graph has its inputs in the order of their first use.
        order = [captured.places.index(place) for place in graph.variables]
        mine = function(*[torch.from_numpy(inputs[place]) for place in order])
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


def test_both_sides_of_a_choice_are_computed(tmp_path):
    compared(CHOICE, tmp_path, [[1, 2, 3]], [[-1, -2, -3]])


def test_a_loop_of_known_steps_is_written_out_with_what_it_returns_of_each(tmp_path):
    compared(STEPS, tmp_path, [[1, 2]], [[-3, 0.5]])


def test_a_loop_that_its_values_end_keeps_the_state_from_then_on(tmp_path):
    compared(UNTIL, tmp_path, [[1, 1]], [[0, 0.001]], [[100, 1]])


def test_a_scan_backwards_is_written_out(tmp_path):
    compared(SCAN, tmp_path, [[1, 2], np.arange(10).reshape(5, 2) / 10])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SHAPES, r"between results of other shapes \(\(3,\) and \(6,\)\), so that the model is no graph"),
        (STEPS.replace("n = {4}", "n = {5000}").replace("[4, 2]", "[5000, 2]"), "makes 5000 steps and is written out"),
        (
            STEPS.replace("d = Identity (c)", "t = ReduceSum <keepdims = 0> (h)  d = Less (t, f)").replace(
                "d = Less (t, f)  f = Cast <to = 1> (i)", "f = Cast <to = 1> (i)  d = Less (t, f)"
            ),
            "returns every step, so that no shape is fixed",
        ),
        (CHOICE.replace("b = Add (s, v)", "b = NonZero (s)"), "its shapes must be static"),
    ],
)
def test_what_is_no_graph_of_fixed_shapes_is_one_sentence(tmp_path, text, said):
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(text), path)
    with pytest.raises(TuneError, match=said):
        load_graphs(str(path), folder=tmp_path)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("settings", ["", "linear_before_reset = 1,", 'activations = ["Relu"],'])
def test_recurrent_layers_compute_what_onnx_runtime_computes(tmp_path, kind, settings):
    if (settings.startswith("linear") and kind != "GRU") or (settings.startswith("act") and kind != "RNN"):
        pytest.skip("an attribute of another layer")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    if settings.startswith("act"):
        settings = 'activations = ["Relu", "Relu"],'
    drawn = np.random.default_rng(0)

    def weight(*shape: int) -> str:
        return ", ".join(f"{value:.4f}" for value in drawn.normal(size=shape).reshape(-1) / 2)

    text = f"""
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[4, 2, 3] x) => (float[4, 2, 2, 5] y, float[2, 2, 5] h)
        <float[2, {gates * 5}, 3] w = {{{weight(2, gates * 5, 3)}}}, float[2, {gates * 5}, 5] r =
         {{{weight(2, gates * 5, 5)}}}, float[2, {gates * 10}] b = {{{weight(2, gates * 10)}}}>
        {{ y, h = {kind} <hidden_size = 5, {settings} direction = "bidirectional"> (x, w, r, b) }}
    """
    path = written(text, tmp_path)
    (captured,) = load_graphs(str(path), folder=tmp_path)
    tensors, graph = load(captured.data), captured.graph
    mine = function_of(graph, tensors)(tensors[graph.variables[0]])
    x = tensors[graph.variables[0]].numpy()
    theirs = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-6)
