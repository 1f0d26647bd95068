"""Programs that make other calls: what is inserted, removed, replaced, moved or repeated is named and not lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_builder import Run

from jumar.base.findings import Severity
from jumar.comparison import Comparison, compare
from jumar.comparison.align.align import AlignedStep, align_step
from jumar.recording import CallRow

Array = np.ndarray


def structure(reference: Run, target: Run) -> AlignedStep:
    return align_step(reference.rows(0), target.rows(0))


def kinds(aligned: AlignedStep) -> list[tuple[str, list[str], list[str]]]:
    return [(diff.kind, [c.name for c in diff.reference], [c.name for c in diff.target]) for diff in aligned.structure]


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Net:
    """Writes a small program call by call."""

    def __init__(self, path: str = "net", **settings) -> None:
        self.run = Run(**settings)
        self.path = path

    def op(
        self, name: str, function: Callable[..., Array], *inputs: Array, path: str = "", phase: str = "forward"
    ) -> Array:
        return self.run.call(f"aten::{name}", inputs, [function(*inputs)], path=path or self.path, phase=phase)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(*, fused: bool, scale: float = 0.5) -> Run:
    net = Net("attn")
    q, k, v = (net.op("tanh", np.tanh, drawn(seed, 2, 6, 4)) for seed in (1, 2, 3))
    weights = softmax(q @ k.transpose(0, 2, 1) * np.float32(scale)).astype(np.float32)
    if fused:
        out = net.op("_scaled_dot_product_flash_attention", lambda *_: weights @ v, q, k, v)
    else:
        scores = net.op("bmm", lambda a, b: a @ b.transpose(0, 2, 1), q, k)
        scaled = net.op("mul.Scalar", lambda a: a * np.float32(scale), scores)
        soft = net.op("_softmax", lambda a: softmax(a).astype(np.float32), scaled)
        out = net.op("bmm", lambda a, b: a @ b, soft, v)
    net.op("sin", np.sin, out)
    return net.run


def test_an_attention_kernel_is_compared_with_its_parts_where_the_result_leaves_them() -> None:
    comparison = compare(attention(fused=False), attention(fused=True))
    assert comparison.status == "agree", comparison.headline
    assert kinds(structure(attention(fused=False), attention(fused=True))) == [
        ("replaced", ["aten::bmm", "aten::mul.Scalar", "aten::_softmax", "aten::bmm"], [KERNEL])
    ]
    region = next(diff for diff in comparison.operators if diff.target_name == KERNEL)
    assert (region.status, region.outputs[0].evidence) == ("agree", "statistics")
    assert "compared where the result leaves them" in region.note
    assert not comparison.unmatched_reference
    assert not comparison.unmatched_target


KERNEL = "aten::_scaled_dot_product_flash_attention"


def test_a_wrong_attention_kernel_is_the_first_divergence() -> None:
    first = compare(attention(fused=False), attention(fused=True, scale=0.6)).first_divergence
    assert first is not None
    assert first.target_name == KERNEL


def linear(*, form: str, factor: float = 1.0) -> Run:
    net = Net("fc")
    x = net.op("tanh", np.tanh, drawn(1, 6, 4))
    weight, bias = drawn(2, 5, 4), drawn(3, 5)
    if form == "linear":
        out = net.op("linear", lambda a, w, b: (a @ w.T + b) * np.float32(factor), x, weight, bias)
    elif form == "addmm":
        turned = net.run.call("aten::t", [weight], [weight], path="fc")
        out = net.op("addmm", lambda b, a, w: a @ w.T + b, bias, x, turned)
    else:
        product = net.op("mm", lambda a, w: a @ w.T, x, weight)
        out = net.op("add.Tensor", np.add, product, bias)
    net.op("sin", np.sin, out)
    return net.run


@pytest.mark.parametrize(("first", "second"), [("linear", "addmm"), ("addmm", "mm"), ("mm", "linear")])
def test_a_linear_layer_is_one_calculation_in_all_its_forms(first, second) -> None:
    comparison = compare(linear(form=first), linear(form=second))
    assert comparison.status == "agree", comparison.headline
    assert comparison.num_operators["agree"] == 3
    assert [diff.kind for diff in structure(linear(form=first), linear(form=second)).structure] == ["replaced"]


def test_a_wrong_linear_layer_is_found_behind_its_other_form() -> None:
    first = compare(linear(form="mm"), linear(form="linear", factor=1.01)).first_divergence
    assert first is not None
    assert first.target_name == "aten::linear"


def convolution(*, split: bool) -> Run:
    net = Net("conv")
    x, weight, bias = net.op("tanh", np.tanh, drawn(1, 2, 3, 4)), drawn(2, 3, 3), drawn(3, 3, 1)
    plain = np.einsum("oc,bcl->bol", weight, x).astype(np.float32)
    if split:
        out = net.op("convolution", lambda *_: plain, x, weight)
        out = net.op("add.Tensor", np.add, out, bias)
    else:
        out = net.op("convolution", lambda *_: plain + bias, x, weight, bias)
    net.op("relu", lambda a: np.maximum(a, 0), out)
    return net.run


@pytest.mark.parametrize("split", [True, False])
def test_a_convolution_that_adds_its_bias_apart_is_no_divergence(split) -> None:
    comparison = compare(convolution(split=split), convolution(split=not split))
    assert comparison.status == "agree", comparison.headline
    assert [finding.code for finding in comparison.findings] == ["JM311"]
    assert comparison.findings[0].severity == Severity.INFO


def layer_norm(*, fused: bool) -> Run:
    net = Net("norm")
    x, weight = net.op("tanh", np.tanh, drawn(1, 6, 8)), drawn(2, 8)
    if fused:
        inverse = (1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)).astype(np.float32)
        out = (x - x.mean(-1, keepdims=True)) * inverse * weight
        out = net.run.call("aten::native_layer_norm", [x, weight], [out, x.mean(-1), inverse], path="norm")
    else:
        centred = net.op("sub.Tensor", np.subtract, x, net.op("mean.dim", lambda a: a.mean(-1, keepdims=True), x))
        variance = net.op("mean.dim", lambda a: a.mean(-1, keepdims=True), net.op("pow.Scalar", np.square, centred))
        shifted = net.op("add.Scalar", lambda a: a + np.float32(1e-5), variance)
        inverse = net.op("rsqrt", lambda a: 1 / np.sqrt(a), shifted)
        out = net.op("mul.Tensor", np.multiply, net.op("mul.Tensor", np.multiply, centred, inverse), weight)
    net.op("sin", np.sin, out)
    return net.run


def test_a_layer_norm_is_compared_with_its_parts() -> None:
    comparison = compare(layer_norm(fused=True), layer_norm(fused=False))
    assert comparison.status == "agree", comparison.headline
    assert [diff.kind for diff in structure(layer_norm(fused=True), layer_norm(fused=False)).structure] == ["replaced"]


def branches(*, swapped: bool, wrong: float = 1.0) -> Run:
    net = Net()
    x = net.op("tanh", np.tanh, drawn(1, 4, 4))
    calls = [("sin", lambda a: np.sin(a) * np.float32(wrong)), ("cos", np.cos), ("exp", np.exp)]
    results = {}
    for name, function in reversed(calls) if swapped else calls:
        results[name] = net.op(name, function, x)
    net.op("add.Tensor", np.add, results["sin"], results["cos"])
    net.op("mul.Tensor", np.multiply, results["cos"], results["exp"])
    return net.run


def test_independent_calls_in_another_order_are_compared_and_said_to_have_moved() -> None:
    comparison = compare(branches(swapped=False), branches(swapped=True))
    assert (comparison.status, comparison.num_operators) == ("agree", {"agree": 6})
    assert {diff.kind for diff in structure(branches(swapped=False), branches(swapped=True)).structure} == {"moved"}
    assert [finding.severity for finding in comparison.findings] == [Severity.INFO] * len(comparison.findings)
    first = compare(branches(swapped=False), branches(swapped=True, wrong=1.1)).first_divergence
    assert first is not None
    assert first.name == "aten::sin"


def stack(layers: int, *, extra: Callable[[Net, int, Array], Array] | None = None, skip: int = -1) -> Run:
    net = Net()
    hidden = drawn(0, 8, 8)
    for layer in range(layers):
        net.path = f"layers.{layer}"
        product = net.op("mm", lambda a, w: a @ w / np.float32(3), hidden, drawn(layer + 1, 8, 8))
        hidden = product if layer == skip else net.op("tanh", np.tanh, product)
        if extra is not None:
            hidden = extra(net, layer, hidden)
    return net.run


def test_equal_insertions_in_all_layers_are_one_finding_with_their_number() -> None:
    doubled = stack(6, extra=lambda net, _, x: net.op("mul.Tensor", lambda a: a * np.float32(1), x))
    found = structure(stack(6), doubled).structure
    assert [(diff.kind, diff.num_places, diff.module_path) for diff in found] == [("inserted", 6, "layers.0")]
    comparison = compare(stack(6), doubled)
    message = next(finding.message for finding in comparison.findings if finding.code == "JM311")
    assert message.startswith("Only the target runs aten::mul.Tensor (train.py:1) in layers.0, forward of step 0")
    assert message.endswith("and so at 6 places.")


def test_a_call_that_is_left_out_is_named_and_blamed() -> None:
    comparison = compare(stack(4), stack(4, skip=2))
    assert comparison.first_divergence is not None
    assert (comparison.first_divergence.module_path, comparison.first_divergence.reference_name) == (
        "layers.2",
        "aten::tanh",
    )
    assert kinds(structure(stack(4), stack(4, skip=2))) == [("removed", ["aten::tanh"], [])]


def recurrent(times: int) -> Run:
    net = Net("cell")
    hidden, weight = drawn(0, 4, 4), drawn(1, 4, 4)
    states = [hidden]
    for _ in range(times):
        hidden = net.op("tanh", np.tanh, net.op("mm", lambda a, w: a @ w, hidden, weight))
        net.run.call("Cell", [states[-1]], [hidden], path="cell", kind="module")
        states.append(hidden)
    gradient = drawn(2, 4, 4)
    for state in reversed(states[1:]):
        gradient = net.op("tanh_backward", lambda g, s: g * (1 - s * s), gradient, state, phase="backward")
    return net.run


def test_a_loop_of_other_length_is_compared_from_its_start_and_said() -> None:
    aligned = structure(recurrent(3), recurrent(5))

    def occurrences(name: str) -> list[tuple[int, int]]:
        pairs = [(pair.reference, pair.target) for pair in aligned.pairs if pair.reference and pair.target]
        return [(a.row.occurrence, b.row.occurrence) for a, b in pairs if a.row.name == name]

    assert occurrences("aten::mm") == occurrences("aten::tanh") == [(0, 0), (1, 1), (2, 2)]
    assert occurrences("aten::tanh_backward") == [(0, 2), (1, 3), (2, 4)]
    assert ("repeated", 3, 5) in [(diff.kind, diff.num_reference, diff.num_target) for diff in aligned.structure]


OPERATORS = ("mm", "tanh", "relu", "add.Tensor", "mul.Tensor", "exp", "gelu")


def chain(names: list[str], edits: dict[int, str]) -> tuple[Run, list[int]]:
    """Return a run of `names` in a chain, and for each of its calls the index in `names`, -1 for inserted ones.

    `edits` says at which index a call is inserted, removed or in which its operator has a vendor's name.
    """
    net = Net()
    hidden, origins = drawn(0, 2, 2), []
    for index, name in enumerate(names):
        edit = edits.get(index)
        if edit == "insert":
            hidden = net.op("sigmoid", lambda a: a + 0, hidden)
            origins.append(-1)
        if edit == "remove":
            continue
        hidden = net.run.call(f"{'npu' if edit == 'rename' else 'aten'}::{name}", [hidden], [hidden + 0], path="net")
        origins.append(index)
    return net.run, origins


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(OPERATORS), min_size=4, max_size=60),
    st.dictionaries(st.integers(0, 59), st.sampled_from(["insert", "rename"]), max_size=12),
)
def test_insertions_and_renames_lose_no_true_pair(names, edits) -> None:
    reference, _ = chain(names, {})
    target, origins = chain(names, edits)
    found = {
        pair.reference.row.seq: pair.target.row.seq
        for pair in structure(reference, target).pairs
        if pair.reference and pair.target
    }
    assert found == {index: seq for seq, index in enumerate(origins) if index >= 0}


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.integers(10, 60),
    st.dictionaries(st.integers(0, 59), st.sampled_from(["insert", "rename", "remove"]), max_size=12),
)
def test_removals_among_different_calls_lose_no_true_pair(length, edits) -> None:
    names = [f"{OPERATORS[index % 7]}{index // 14}" for index in range(length)]
    reference, _ = chain(names, {})
    target, origins = chain(names, edits)
    found = {
        pair.reference.row.seq: pair.target.row.seq
        for pair in structure(reference, target).pairs
        if pair.reference and pair.target and not pair.region
    }
    truth = {index: seq for seq, index in enumerate(origins) if index >= 0}
    assert {k: v for k, v in found.items() if truth.get(k) != v} == {}
    assert len(truth) - len(found) <= len([edit for edit in edits.values() if edit == "remove"])


def test_hundreds_of_insertions_in_ten_thousand_calls_are_found_in_time() -> None:
    draw = random.Random(0)
    small, _ = chain(list(OPERATORS), {})
    rows = dict(zip(OPERATORS, small.rows(0), strict=True))
    names = [draw.choice(OPERATORS) for _ in range(10_000)]
    at = {draw.randrange(10_000) for _ in range(300)}
    reference = [numbered(rows[name], seq) for seq, name in enumerate(names)]
    edited = [name for k, name in enumerate(names) for name in ([name, "insert"] if k in at else [name])]
    target = [numbered(rows.get(name, small.rows(0)[0]), seq, name) for seq, name in enumerate(edited)]
    begin = time.process_time()
    aligned = align_step(reference, target)
    seconds = time.process_time() - begin
    alone = [pair.target.row.name for pair in aligned.pairs if pair.reference is None and pair.target]
    assert alone == ["aten::insert"] * len(at)
    assert seconds < 5.0, "0.4 s on a machine with nothing else to do"


def numbered(row: CallRow, seq: int, name: str = "") -> CallRow:
    """Return the row as the `seq`-th of a chain."""
    renamed = {"name": f"aten::{name}"} if name else {}
    return replace(
        row,
        seq=seq,
        occurrence=seq,
        inputs=tuple(replace(tensor, storage=seq + 1) for tensor in row.inputs),
        outputs=tuple(replace(tensor, storage=seq + 2) for tensor in row.outputs),
        **renamed,
    )


def test_nothing_that_is_not_compared_is_said_to_agree() -> None:
    comparison: Comparison = compare(stack(3), stack(3, extra=lambda net, _, x: net.op("sin", lambda a: a + 0, x)))
    assert len(comparison.unmatched_target) == 3
    assert "JM311" in {finding.code for finding in comparison.findings}
    assert comparison.num_operators == {"agree": 6}
