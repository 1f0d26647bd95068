"""A captured graph computes what the model computes, and has one form however the model was written."""

from __future__ import annotations

import json

import graph_models as models
import pytest
import torch
from torch import nn

from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import ControlFlow, graph_of_module
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.capture.data import load
from jumar.tune.graph.operators import function_of
from jumar.tune.graph.reading.nesting import Nesting
from jumar.tune.model.errors import TuneError


def capture(model, args, kwargs=None, **more) -> Captured:
    return graph_of_module(model, args, kwargs, **more)


def operators(captured: Captured) -> list[str]:
    return [node.operator for node in captured.graph.nodes]


def computed(captured: Captured) -> list[torch.Tensor | None]:
    tensors, graph = load(captured.data), captured.graph
    function = function_of(graph, {place: tensors[place] for place in graph.constants})
    with torch.no_grad():
        return list(function(*[tensors[place] for place in graph.variables]))


def test_a_convolution_network_is_captured_as_exported_and_without_in_place_operators(tmp_path):
    model, x = models.residual()
    captured = capture(model, (x,), folder=tmp_path)
    assert operators(captured) == [
        "aten::conv2d", "aten::conv2d", "aten::batch_norm", "aten::relu", "aten::add.Tensor", "aten::relu",
        "aten::adaptive_avg_pool2d", "aten::flatten.using_ints", "aten::linear",
    ]  # fmt: skip
    with torch.no_grad():
        assert torch.allclose(computed(captured)[0], model.eval()(x), atol=1e-6)
    assert (captured.findings, captured.places, captured.graph.variables) == ((), [0], [0])


def test_a_model_is_left_in_the_mode_it_had(tmp_path):
    model, x = models.residual()
    model.train()
    model.norm.eval()
    capture(model, (x,), folder=tmp_path)
    assert (model.training, model.dropout.training, model.norm.training) == (True, True, False)


def test_keywords_nested_results_and_nothing_come_back_as_the_model_gives_them(tmp_path):
    model, args, kwargs = models.tied()
    captured = capture(model, args, kwargs, folder=tmp_path)
    outputs = Nesting(captured.out_nesting).filled(computed(captured))
    with torch.no_grad():
        expected = model.eval()(*args, **kwargs)
    assert outputs["none"] is None
    assert torch.allclose(outputs["logits"], expected["logits"], atol=1e-5)
    assert torch.allclose(outputs["first"], expected["first"], atol=1e-5)
    assert None not in captured.graph.outputs


def test_weights_that_are_one_are_one_input_and_what_depends_on_weights_alone_is_computed(tmp_path):
    model, args, kwargs = models.tied()
    captured = capture(model, args, kwargs, folder=tmp_path)
    shapes = [spec.shape for spec in captured.graph.inputs if spec.constant]
    assert shapes.count((50, 16)) == 1
    assert "aten::arange" not in operators(captured)
    assert operators(captured).count("aten::embedding") == 1  # that of the places is a weight now


@pytest.mark.parametrize("factory", [models.residual, models.tied])
def test_the_same_model_twice_has_the_same_key(tmp_path, factory):
    keys = set()
    for _ in range(2):
        model, args, *rest = factory()
        keys.add(capture(model, args if isinstance(args, tuple) else (args,), *rest, folder=tmp_path).graph.key)
    assert len(keys) == 1


def test_the_way_in_place_operators_are_written_does_not_matter(tmp_path):
    def plain(x):
        return (x.sin() + 1).relu()

    def in_place(x):
        y = x.sin()
        y += 1
        return y.relu_()

    keys = {capture(models.Function(one), (torch.randn(4),), folder=tmp_path).graph.key for one in (plain, in_place)}
    assert len(keys) == 1


def test_writing_to_a_part_of_a_tensor_is_captured_too(tmp_path):
    def part(x):
        y = x * 2
        y[:, 0] = 1
        z = y.view(-1)
        y.add_(1)
        return z.sum(), y

    x = torch.randn(3, 4)
    captured = capture(models.Function(part), (x,), folder=tmp_path)
    assert all(torch.allclose(*pair) for pair in zip(computed(captured), part(x), strict=True))
    assert captured.reason_not_tuned == ""


def test_old_values_that_are_still_read_keep_an_operator_from_being_made_ordinary(tmp_path):
    """`y` is written to while `x.t()` of it is read later: functionalisation, not renaming, must see to it."""

    def function(x):
        y = x.exp()
        turned = y.t()
        y.mul_(3)
        return turned + 1

    x = torch.randn(3, 3)
    captured = capture(models.Function(function), (x,), folder=tmp_path)
    assert torch.allclose(computed(captured)[0], x.exp().t() * 3 + 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (y := x.sin(), y.clone()),
        lambda x: (y := x.sin(), y.to(torch.float32, copy=True)),
        lambda x: (y := x.sin(), nn.functional.dropout(y.clone(), training=False)),
        lambda x: (y := x.sin(), y[:1], y.clone().split(1)[1]),
        lambda x: (x.sin(), x.clone().flatten(1)),
        lambda x: (x.sin(), x.clone().detach()),
    ],
)
def test_a_copy_stays_where_a_result_would_be_in_the_memory_of_an_input_or_another_result(tmp_path, function):
    x = torch.randn(2, 3)
    captured = capture(models.Function(function), (x,), folder=tmp_path)
    tensors = load(captured.data)
    outputs = function_of(captured.graph, {})(*tensors.values())
    assert all(torch.equal(*pair) for pair in zip(outputs, function(x), strict=True))
    assert len({one.untyped_storage().data_ptr() for one in (outputs[0], outputs[-1], tensors[0])}) == 3


def test_a_copy_that_no_result_is_made_with_has_no_part_in_the_key(tmp_path):
    def copying(x):
        y = x.clone().sin().clone()
        return y.clone(), (y.clone() + 1).clone()

    def plain(x):
        y = x.sin()
        return y, y + 1

    keys = {capture(models.Function(one), (torch.randn(4),), folder=tmp_path).graph.key for one in (copying, plain)}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("x", "other"),
    [
        (torch.randn(3, 4, 4), torch.randn(3, 1, 1, dtype=torch.float64)),
        (torch.randn(2, 4).half(), torch.randn(2, 4)),
        (torch.arange(4, dtype=torch.int32), torch.arange(4)),
    ],
    ids=["more bits", "half", "integers"],
)
def test_what_is_written_in_place_keeps_its_dtype(tmp_path, x, other):
    def function(x, other):
        y = x * 2
        y -= other
        return y

    captured = capture(models.Function(function), (x, other), folder=tmp_path)
    (found,) = computed(captured)
    assert captured.findings == ()
    assert found.dtype == x.dtype
    assert torch.equal(found, function(x, other))


def test_in_place_operators_of_several_dtypes_are_ordinary_where_that_is_the_same(tmp_path):
    def function(x, mask, number):
        y = x * 2
        y *= mask
        y += number
        return y.gt_(0)

    given = (torch.randn(3, 4), torch.tensor([True, False, True, True]), torch.tensor(0.5, dtype=torch.float64))
    captured = capture(models.Function(function), given, folder=tmp_path)
    assert operators(captured)[:3] == ["aten::mul.Tensor", "aten::mul.Tensor", "aten::add.Tensor"]
    assert torch.equal(computed(captured)[0], function(*given))


@pytest.mark.parametrize("function", [lambda x: x / 2, lambda x: x.sqrt() + 1, lambda x: x * 0.5])
def test_a_graph_that_follows_another_default_dtype_is_refused(tmp_path, function):
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(TuneError, match=r"computes in the default dtype.*got torch.float64"):
            capture(models.Function(function), (torch.arange(4),), folder=tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_graph_that_names_its_dtypes_has_one_key_under_any_default(tmp_path):
    def function(x):
        return (x.to(torch.float64) / 2 + torch.ones(4, dtype=torch.float64)).sum(), x.float().exp()

    keys = set()
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            keys.add(capture(models.Function(function), (torch.arange(4),), folder=tmp_path).graph.key)
        finally:
            torch.set_default_dtype(torch.float32)
    assert len(keys) == 1


def test_an_inference_batch_norm_has_one_form_by_both_ways(tmp_path):
    norm = nn.BatchNorm2d(2).eval()

    def hard(x):
        y = norm(x)
        view = y.view(-1)
        y.add_(1)
        return view

    ways = [capture(models.Function(one), (torch.randn(1, 2, 3, 3),), folder=tmp_path) for one in (hard, norm)]
    assert [operators(one)[0] for one in ways] == ["aten::batch_norm"] * 2


def test_values_that_decide_what_is_computed_are_no_single_graph(tmp_path):
    model, x = models.chooses()
    with pytest.raises(ControlFlow, match="decides by its values"):
        capture(model, (x,), folder=tmp_path)


@pytest.mark.parametrize(
    ("factory", "code", "said"),
    [
        (models.random, "JM510", "draws random numbers (aten.rand_like.default)"),
        (models.counts, "JM511", "the model and its captured graph differ by"),
    ],
)
def test_what_is_no_function_is_not_tuned_and_says_why(tmp_path, factory, code, said):
    model, x = factory()
    captured = capture(model, (x,), folder=tmp_path)
    assert [finding.code for finding in captured.findings] == [code]
    assert said in captured.reason_not_tuned


def test_outputs_without_a_finite_number_are_refused_and_some_nans_are_said(tmp_path):
    model, x = models.not_a_number()
    captured = capture(model, (x,), folder=tmp_path)
    assert [(one.code, one.severity.label) for one in captured.findings] == [("JM512", "warning"), ("JM512", "error")]
    assert captured.reason_not_tuned.startswith("output 1 of model holds NaN or Inf everywhere")


def test_dropout_in_evaluation_draws_nothing_and_in_a_function_is_seen(tmp_path):
    dropout = models.Function(lambda x: nn.functional.dropout(x, 0.5, training=True))
    assert capture(dropout, (torch.randn(8),), folder=tmp_path).findings[0].code == "JM510"
    attention = models.Function(lambda x: nn.functional.scaled_dot_product_attention(x, x, x))
    assert capture(attention, (torch.randn(1, 1, 4, 8),), folder=tmp_path).findings == ()


@pytest.mark.parametrize("factory", [models.writes, models.reassigns, models.batch_statistics, models.cached_keys])
def test_a_model_that_writes_its_buffers_is_a_graph_that_writes_its_inputs(tmp_path, factory):
    model, args = factory()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    bound = dict(model.named_buffers())
    captured = capture(model, args, folder=tmp_path)
    assert captured.findings == ()
    assert set(captured.state.values()) == set(before)
    assert all(buffer is bound[name] for name, buffer in model.named_buffers())
    assert all(torch.equal(before[name], buffer) for name, buffer in model.named_buffers())
    values = load(captured.data)
    inputs = [values[place].clone() for place in captured.graph.variables]
    function = function_of(captured.graph, values)
    with torch.no_grad():
        for _ in range(3):
            assert torch.allclose(function(*inputs)[0], model.eval()(*args), atol=1e-6)
    kept = dict(zip(captured.graph.variables, inputs, strict=True))
    after = dict(model.named_buffers())
    assert all(torch.allclose(after[name], kept[place], atol=1e-6) for place, name in captured.state.items())


def test_an_argument_that_is_written_to_stays_as_it_is_while_the_model_is_captured(tmp_path):
    def adds(x, total):
        old = total.clone()
        total.add_(x)
        return old[:2], total * 2

    given = (torch.ones(3), torch.arange(3.0))
    captured = capture(models.Function(adds), given, folder=tmp_path)
    assert given[1].tolist() == [0, 1, 2]
    values = load(captured.data)
    inputs = [values[place].clone() for place in captured.graph.variables]
    old, doubled = function_of(captured.graph, {})(*inputs)
    assert (old.tolist(), doubled.tolist()) == ([0, 1], [2, 4, 6])
    assert sorted(tensor.tolist() for tensor in inputs) == [[1, 1, 1], [1, 2, 3]]
    assert captured.state == {}


def test_a_buffer_that_is_written_and_returned_is_compared_as_it_was_returned(tmp_path):
    """The model is put back as it was: a result that is its buffer must not change with that."""

    class Remembers(models.Writes):
        def forward(self, x):
            self.state.add_(x)
            return {"state": self.state, "part": self.state[1:], "of": models.Pair(self.state.view(1, 3), 1)}

    model = Remembers()
    captured = capture(model, (torch.ones(3),), folder=tmp_path)
    assert captured.reason_not_tuned == ""
    assert model.state.tolist() == [0.0] * 3
    assert [one.reshape(-1).tolist() for one in computed(captured)] == [[1.0] * 3, [1.0] * 2, [1.0] * 3]


def test_two_buffers_that_are_exchanged_read_each_others_old_values(tmp_path):
    model, args = models.swaps()
    captured = capture(model, args, folder=tmp_path)
    values = load(captured.data)
    inputs = [values[place].clone() for place in captured.graph.variables]
    first, second = (function_of(captured.graph, {})(*inputs)[0].tolist() for _ in range(2))
    assert captured.findings == ()
    assert (first, second) == ([1, 1, 1], [2, 2, 2])


def test_dataclasses_named_tuples_and_numbers_come_back(tmp_path):
    model, args = models.nests()
    captured = capture(model, args, folder=tmp_path)
    with torch.no_grad():
        expected = model(*args)
    actual = Nesting(captured.out_nesting).filled(computed(captured))
    assert type(actual).__name__ == type(expected).__name__
    assert torch.equal(actual.scores, expected.scores)
    assert (actual.pair._fields, actual.pair.count, actual.missing) == (("first", "count"), 3, None)
    assert torch.equal(actual.pair.first, expected.pair.first)


def test_padding_that_the_fast_path_skips_is_no_disagreement(tmp_path):
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    captured = capture(layer, (torch.randn(2, 3, 16), None, padding), folder=tmp_path)
    assert captured.findings == ()
    assert torch.backends.mha.get_fastpath_enabled()


def test_sparse_tensors_are_one_sentence_and_unused_ones_no_matter(tmp_path):
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(TuneError, match="has the layout sparse_coo, and only dense tensors are tuned"):
        capture(models.Function(torch.mm), (sparse, torch.randn(3, 3)), folder=tmp_path)
    model = nn.Linear(3, 3)
    model.register_buffer("unused", sparse, persistent=False)
    assert capture(model, (torch.randn(2, 3),), folder=tmp_path).findings == ()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.sum().item(), r"returns a number that its values decide \(x.item\(\)\)"),
        (lambda x: x.to_sparse(), "result 0 has the layout sparse_coo, and only dense tensors are tuned"),
        (lambda x: (x + 1, x.to(torch.float8_e4m3fn)), "result 1 is torch.float8_e4m3fn, which PyTorch cannot compare"),
        (lambda x: {torch.float32: x + 1}, "a dictionary with the key torch.float32"),
    ],
)
def test_results_that_cannot_be_compared_or_described_are_one_sentence(tmp_path, function, said):
    with pytest.raises(TuneError, match=said):
        capture(models.Function(function), (torch.ones(2, 3),), folder=tmp_path)


def test_what_has_no_values_is_one_sentence(tmp_path):
    with pytest.raises(TuneError, match="is on the device meta"):
        capture(nn.Linear(3, 4, device="meta"), (torch.ones(2, 3, device="meta"),), folder=tmp_path)


class WritesSharedMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.arange(8.0))
        self.register_buffer("part", self.whole[2:6])

    def forward(self, x):
        self.whole.add_(1)
        return x * self.part


class WritesNoBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = torch.zeros(4)

    def forward(self, x):
        self.state += 1
        return x * self.state


@pytest.mark.parametrize("model", [WritesSharedMemory(), WritesNoBuffer()])
def test_writes_that_cannot_be_followed_are_one_sentence(tmp_path, model):
    with pytest.raises(TuneError, match=r"without in-place operators \(.*share memory, or that are no"):
        capture(model, (torch.ones(4),), folder=tmp_path)


def test_rows_of_vmap_are_ordinary_operators(tmp_path):
    def function(x):
        return torch.func.vmap(lambda row: row.exp().add_(1).sum())(x)

    x = torch.randn(3, 4)
    captured = capture(models.Function(function), (x,), folder=tmp_path)
    assert torch.equal(computed(captured)[0], function(x))
    assert captured.reason_not_tuned == ""


def test_an_operator_that_cannot_run_by_itself_is_one_sentence(tmp_path):
    calls = []

    @torch.library.custom_op("jumar_test::once", mutates_args=())
    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        if len(calls) > 2:
            raise ValueError("no more")
        return x * 2

    once.register_fake(torch.empty_like)
    with pytest.raises(TuneError, match="the captured graph cannot be computed: ValueError: no more; it is left"):
        capture(models.Function(once), (torch.ones(3),), folder=tmp_path)


def test_the_module_of_an_exported_program_is_captured(tmp_path):
    model, x = nn.Linear(3, 4), torch.randn(2, 3)
    module = torch.export.export(model, (x,)).module()
    keys = {capture(one, (x,), folder=tmp_path).graph.key for one in (model, module)}
    assert len(keys) == 1


def test_a_model_that_ends_the_process_is_one_sentence(tmp_path):
    def ends(_x):
        raise SystemExit(4)

    with pytest.raises(TuneError, match="the model cannot be run: SystemExit: 4"):
        capture(models.Function(ends), (torch.ones(3),), folder=tmp_path)


def test_a_model_that_raises_is_one_sentence(tmp_path):
    with pytest.raises(TuneError, match="the model cannot be run: RuntimeError: mat1 and mat2 shapes"):
        capture(nn.Linear(3, 4), (torch.randn(2, 5),), folder=tmp_path)


def test_arguments_that_are_no_tensors_are_part_of_the_graph(tmp_path):
    def function(x, factor, flag):
        return x * factor if flag else x

    model = models.Function(function)
    captured = capture(model, (torch.randn(3), 2.5, True), folder=tmp_path)
    assert captured.places == [0, None, None]
    assert len(captured.graph.inputs) == 1


def test_inputs_carry_the_scale_of_their_values(tmp_path):
    model, args, kwargs = models.tied()
    graph: Graph = capture(model, args, kwargs, folder=tmp_path).graph
    ids = graph.inputs[graph.variables[0]]
    assert (ids.minimum, ids.maximum) == (float(args[0].min()), float(args[0].max()))
    assert json.loads(json.dumps(graph.to_json())) == graph.to_json()
