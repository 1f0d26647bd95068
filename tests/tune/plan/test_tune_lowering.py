"""Graphs in fewer bits: which operators may be lowered, where casts and scales go, what comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_models import Attention, Exchanged, Residual, graph_of
from torch import nn

from jumar.tune.engines.base import Site
from jumar.tune.engines.shared.borders import bound
from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.data import load
from jumar.tune.graph.fx import from_fx, to_fx
from jumar.tune.graph.steps import as_step
from jumar.tune.model.errors import TuneError
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.lowering.lowering import PRECISIONS, Lowering, LowPrecision, kind_of
from jumar.tune.plan.lowering.observe import channel_scales, extremes, lowered_site, observe, run_watched
from jumar.tune.plan.lowering.rewrite import effective, lowered, rounded, steps_of

HELD_TO = {"bf16": 2e-2, "fp16": 3e-3, "int8": 4e-2}
"""Of the greatest output, for these few layers: 8, 11 and 8 bits for each value, a few times over."""


class Function(nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def all_nodes(graph: Graph, precision: LowPrecision) -> Lowering:
    return Lowering(nodes={len(graph.inputs) + number: precision for number in range(len(graph.nodes))})


def observed(graph: Graph, weights: dict[int, torch.Tensor], x: torch.Tensor, lowering: Lowering) -> Lowering:
    ranges = observe(graph, weights, [[x]], rounded(graph, lowering))
    return Lowering(nodes=lowering.nodes, ranges=ranges)


def site_of(graph: Graph, weights: dict[int, torch.Tensor], x: torch.Tensor) -> Site:
    return Site(graph=graph, constants=weights, example=[x], folder=Path())


def names(graph: Graph) -> list[str]:
    return [node.operator.removeprefix("aten::") for node in graph.nodes]


MODELS = [(Residual, (2, 3, 8, 8)), (Attention, (2, 6, 16))]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("model", "shape"), MODELS)
def test_a_lowered_graph_computes_nearly_the_same_with_the_types_it_had(
    model: type[nn.Module], shape: tuple[int, ...], precision: LowPrecision
) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    graph, weights = graph_of(model(), x)
    (expected,) = run_watched(graph, weights, [x], {})
    site = lowered_site(site_of(graph, weights, x), observed(graph, weights, x, all_nodes(graph, precision)))
    (actual,) = run_watched(site.graph, site.constants, [x], {})
    assert (actual.dtype, actual.shape, actual.stride()) == (expected.dtype, expected.shape, expected.stride())
    error = ((actual - expected).abs().max() / expected.abs().max()).item()
    assert 0 < error < HELD_TO[precision]


def test_sensitive_operators_keep_float32_and_casts_stand_only_at_the_borders() -> None:
    graph, _ = graph_of(Residual(), torch.randn(2, 3, 8, 8))
    made = lowered(graph, all_nodes(graph, "bf16")).graph
    low = {name: spec.dtype for name, spec in zip(names(made), made.values, strict=True) if spec is not None}
    assert low["mean.dim"] == low["softmax.int"] == "float32"
    assert low["conv2d"] == low["batch_norm"] == low["relu"] == low["mm"] == "bfloat16"
    assert names(made).count("_to_copy") == 4


def test_a_weight_is_cast_once_and_leaves_the_graph() -> None:
    x = torch.randn(2, 6, 16)
    graph, weights = graph_of(Attention(), x)
    site = lowered_site(site_of(graph, weights, x), all_nodes(graph, "fp16"))
    assert len(site.graph.constants) == len(graph.constants)
    assert {tensor.dtype for tensor in site.constants.values()} == {torch.float16, torch.float32}
    kept = [place for place in site.constants if site.constants[place].dtype == torch.float32]
    assert len(kept) == 2  # of the layer norm


def test_values_read_by_several_operators_are_scaled_once() -> None:
    one, other = nn.Linear(4, 4), nn.Linear(4, 4)
    model = Function(lambda x: one(x) + other(x))
    model.one, model.other = one, other
    x = torch.randn(3, 4)
    graph, weights = graph_of(model, x)
    made = lowered(graph, observed(graph, weights, x, all_nodes(graph, "int8"))).graph
    assert names(made).count("fake_quantize_per_tensor_affine") == 1
    assert names(made).count("fake_quantize_per_channel_affine") == 2


def test_nodes_not_named_stay_and_a_graph_without_lowering_is_the_same() -> None:
    plain, _ = graph_of(Attention(), torch.randn(2, 6, 16))
    assert lowered(plain, Lowering()).graph == plain
    graph, weights = graph_of(Residual(), torch.randn(2, 3, 8, 8))
    first = next(value for value in effective(graph, all_nodes(graph, "bf16")))
    made = lowered(graph, Lowering(nodes={first: "bf16"})).graph
    dtypes = [spec.dtype for spec in made.values if spec is not None]
    assert dtypes.count("bfloat16") == 2  # the cast of what it reads, and itself
    assert lowered_site(site := site_of(graph, weights, torch.randn(2, 3, 8, 8)), Lowering()) is site


def test_the_lowered_graph_is_in_canonical_order() -> None:
    x = torch.randn(2, 3, 8, 8)
    graph, weights = graph_of(Residual(), x)
    site = lowered_site(site_of(graph, weights, x), all_nodes(graph, "bf16"))
    module = to_fx(site.graph)
    for place, node in enumerate(module.graph.find_nodes(op="placeholder")):
        node.meta["val"] = site.constants.get(place, x)
    again, _ = from_fx(module, site.graph.constants)
    assert again.key == site.graph.key


@pytest.mark.parametrize(
    "function",
    [
        torch.exp,
        torch.log,
        lambda x: x.sum(),
        lambda x: nn.functional.layer_norm(x, (4,)),
        lambda x: nn.functional.cross_entropy(x, torch.zeros(2, dtype=torch.int64)),
        lambda x: x.to(torch.float64) * 2,
        lambda x: torch.cumsum(x, 0),
    ],
)
def test_operators_that_need_their_bits_are_black(function: Callable[..., object]) -> None:
    graph, _ = graph_of(Function(function), torch.randn(2, 4))
    kept = [value for value, _ in effective(graph, all_nodes(graph, "bf16")).items()]
    assert [kind_of(graph.producer(value)) for value in kept if graph.producer(value)] == []  # type: ignore[arg-type]


def test_constants_beyond_a_precision_keep_their_operator() -> None:
    def mask(x: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(x > 0, -1e5)

    graph, _ = graph_of(Function(mask), torch.randn(2, 4))
    assert not effective(graph, all_nodes(graph, "fp16"))
    assert effective(graph, all_nodes(graph, "bf16"))


def test_batch_norm_that_trains_is_black() -> None:
    x = torch.randn(2, 3, 4, 4)
    graph, _ = graph_of(nn.BatchNorm2d(3, track_running_stats=False), x)
    assert not effective(graph, all_nodes(graph, "bf16"))


def test_integers_and_float64_are_left_alone() -> None:
    for x in (torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.float64)):
        graph, _ = graph_of(Function(lambda x: x + x), x)
        assert not effective(graph, all_nodes(graph, "bf16"))


def test_a_transposed_weight_has_a_scale_for_each_row() -> None:
    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.addmm(x[0, 0] * torch.ones(5), x, weight.t())

    weight = nn.Parameter(torch.randn(5, 4) * torch.tensor([[1.0], [10.0], [100.0], [0.1], [1.0]]))
    module = Function(lambda x: product(x, weight))
    module.weight = weight
    x = torch.randn(3, 4)
    graph, weights = graph_of(module, x)
    site = lowered_site(site_of(graph, weights, x), observed(graph, weights, x, all_nodes(graph, "int8")))
    scales = next(tensor for tensor in site.constants.values() if tensor.shape == (5,))
    assert scales.shape == (5,)
    (actual,), (expected,) = (
        run_watched(one.graph, one.constants, [x], {}) for one in (site, site_of(graph, weights, x))
    )
    error = (actual - expected).abs().amax(0) / expected.abs().amax(0)
    assert float(error.max()) < HELD_TO["int8"]


def test_two_written_inputs_read_each_others_old_values_when_the_graph_is_lowered(tmp_path: Path) -> None:
    captured = graph_of_module(Exchanged().eval(), (torch.randn(2, 3),), folder=tmp_path, name="swaps")
    graph, values = captured.graph, load(captured.data)
    inputs = {place: values[place].clone() for place in graph.variables}
    names_of = {name: place for place, name in captured.state.items()}
    weights = {place: values[place] for place in graph.constants}
    site = Site(graph=graph, constants=weights, example=list(inputs.values()), folder=tmp_path)
    linear = len(graph.inputs) + names(graph).index("linear")
    made = lowered_site(site, Lowering(nodes={linear: "bf16"}))
    bound(made.graph, made.constants)(*inputs.values())
    assert inputs[names_of["swaps.first"]].tolist() == [2, 2, 2]
    assert inputs[names_of["swaps.second"]].tolist() == [1, 1, 1]


@pytest.mark.parametrize("extreme", [1.0, -1.0])
def test_weights_beyond_the_last_step_are_the_last_step_in_every_engine(tmp_path: Path, extreme: float) -> None:
    pytest.importorskip("onnx")
    from jumar.tune.engines.onnx.model import to_onnx

    torch.manual_seed(0)
    model, x = nn.Linear(8192, 4), torch.randn(2, 8192)
    with torch.no_grad():
        model.weight.uniform_(-0.5, 0.5)
        model.weight[0, 0] = extreme
    graph, weights = graph_of(model, x)
    site = lowered_site(site_of(graph, weights, x), observed(graph, weights, x, all_nodes(graph, "int8")))
    scales = channel_scales(model.weight, 0)
    assert scales[0] < 1 / 127, "the scale leaves the extreme weight out"
    initialisers = to_onnx(site.graph, site.constants).initialisers.values()
    (written,) = (tensor for tensor in initialisers if tensor.shape == (4, 8192))
    exact = torch.fake_quantize_per_channel_affine(
        model.weight, scales, torch.zeros(4, dtype=torch.int32), 0, -127, 127
    )
    steps = (written / scales[:, None]).round().clamp(-128, 127)  # as ONNX has it
    assert torch.equal(steps * scales[:, None], exact)


def test_scales_of_a_weight_without_values_round_nothing_away() -> None:
    weight = torch.stack([torch.zeros(4), torch.tensor([1.0, 0.0, 0.0, 1.0])])
    assert torch.allclose(channel_scales(weight, 0), torch.tensor([1 / 127, 1 / 127]))


@settings(derandomize=True)
@given(low=st.floats(-1e6, 1e6), width=st.floats(0, 1e6))
def test_zero_is_always_a_step(low: float, width: float) -> None:
    scale, zero = steps_of((low, low + width))
    x = torch.zeros(1)
    assert torch.equal(torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255), x)


def test_extremes_are_over_all_inputs_and_leave_out_what_is_not_finite() -> None:
    graph, weights = graph_of(Function(lambda x: x / (x - 1)), torch.zeros(2))
    difference, quotient = (len(graph.inputs) + place for place in (0, 1))
    sets = [[torch.tensor([0.0, 3.0])], [torch.tensor([-4.0, 1.0])]]
    assert extremes(graph, weights, sets, [difference, quotient]) == {difference: (-5.0, 2.0)}


def test_a_range_leaves_out_rare_great_values_where_that_rounds_the_others_better() -> None:
    x = torch.cat([torch.linspace(-1, 1, 100_000), torch.tensor([2.0])])
    graph, weights = graph_of(Function(lambda x: x.relu()), x)
    low, high = observe(graph, weights, [[x]], [0])[0]
    assert -1 <= low <= -0.9
    assert 1 <= high < 2


def test_what_cannot_be_lowered_so_is_refused_in_one_sentence() -> None:
    graph, _ = graph_of(Residual(), torch.randn(2, 3, 8, 8))
    with pytest.raises(TuneError, match="names node 999"):
        lowered(graph, Lowering(nodes={999: "bf16"}))
    with pytest.raises(TuneError, match="range is not known"):
        lowered(graph, all_nodes(graph, "int8"))
    with pytest.raises(TuneError, match="a training step of 1 gradients"):
        lowered(as_step(graph, graph.constants[:1]), Lowering())
    with pytest.raises(TuneError, match="must have one of"):
        Lowering(nodes={3: "fp8"})  # type: ignore[dict-item]
    with pytest.raises(TuneError, match="which is none"):
        Lowering(ranges={3: (2.0, 1.0)})
    with pytest.raises(TuneError, match="lists of nodes"):
        Lowering.from_json({"bf16": 3})


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LOWERINGS = st.builds(
    lambda nodes, ranges: Lowering(nodes=nodes, ranges={key: (min(pair), max(pair)) for key, pair in ranges.items()}),
    st.dictionaries(st.integers(0, 500), st.sampled_from(PRECISIONS)),
    st.dictionaries(st.integers(0, 500), st.tuples(NUMBERS, NUMBERS)),
)


@settings(derandomize=True)
@given(lowering=LOWERINGS)
def test_a_lowering_is_the_same_after_json_also_within_a_plan(lowering: Lowering) -> None:
    assert Lowering.from_json(json.loads(json.dumps(lowering.to_json()))) == lowering
    plan = Plan(regions=(Region(nodes=(), engine="any"),), lowering=lowering)
    kept = Plan.from_json(json.loads(json.dumps(plan.to_json()))).lowering
    assert kept == (lowering if lowering else Lowering())
