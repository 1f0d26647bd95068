"""Training steps: forward and backward as one graph, in forms that are differentiated, judged by their gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from jumar.base.native import compiler
from jumar.tune.engines.base import Site
from jumar.tune.engines.eager import Eager
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.engines.training.batch_norm import batch_norm
from jumar.tune.engines.training.step_forms import in_form, name_of
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import with_values
from jumar.tune.graph.graph import Node
from jumar.tune.graph.inputs import make_inputs
from jumar.tune.graph.operators import function_of
from jumar.tune.graph.steps import as_step
from jumar.tune.measure.options import Space
from jumar.tune.measure.worker.agreement import Rule, compare
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import this_machine
from jumar.tune.model.task import TensorSpec, contiguous_stride
from jumar.tune.search.subgraph.whole import variants, whole_plans

FORM = {"layout": "channels_last", "products": True}
NORMS = FORM | {"norms": True}
needs_compiler = pytest.mark.skipif(not compiler(), reason="our kernels need a C++ compiler")


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(shape=shape, dtype=dtype, stride=contiguous_stride(shape))


def value(number: int) -> dict[str, Any]:
    return {"value": number}


def block() -> Graph:
    """Images, filters of one pixel, their normalisation, ReLU, a shuffle of two groups, a mean over the pixels."""
    nodes = [
        Node(operator="aten::conv2d", arguments=[value(0), value(1)]),
        Node(operator="aten::batch_norm", arguments=[value(4), value(2), value(3), None, None, True, 0.1, 1e-5, False]),
        Node(operator="aten::relu", arguments=[value(5)]),
        Node(operator="aten::view", arguments=[value(6), [4, 2, 3, 5, 5]]),
        Node(operator="aten::transpose.int", arguments=[value(7), 1, 2]),
        Node(operator="aten::reshape", arguments=[value(8), [4, 6, 5, 5]]),
        Node(operator="aten::mean.dim", arguments=[value(9), [2, 3]]),
    ]
    inputs = [spec(4, 3, 5, 5), spec(6, 3, 1, 1), spec(6), spec(6)]
    return with_values(Graph(inputs=inputs, nodes=nodes, outputs=[9, 10]))


def step() -> Graph:
    return as_step(block(), [0, 1, 2, 3])


def site(graph: Graph, folder: Path) -> Site:
    return Site(graph=graph, constants={}, example=make_inputs(graph, 0), folder=folder)


def test_a_step_gives_the_outputs_and_the_gradients_that_autograd_gives() -> None:
    graph, tensors = step(), make_inputs(step(), 1)
    given = [tensor.clone().requires_grad_() for tensor in tensors[:4]]
    outputs = function_of(block())(*given)
    expected = [*outputs, *torch.autograd.grad(outputs, given, tensors[4:])]
    actual = function_of(graph)(*tensors)
    assert len(tensors) == 6
    assert all(torch.equal(one, other) for one, other in zip(expected, actual, strict=True))
    assert not any(tensor.requires_grad for tensor in (*tensors, *actual))


def test_a_step_has_a_key_of_its_own_and_survives_json() -> None:
    graph = step()
    assert Graph.from_json(graph.to_json()) == graph
    assert len({graph.key, block().key, as_step(block(), [1, 2, 3]).key}) == 3


@pytest.mark.parametrize("settings", [{}, {"layout": "channels_last"}, FORM, pytest.param(NORMS, marks=needs_compiler)])
def test_every_form_of_a_step_agrees_with_it(settings: dict[str, Any], tmp_path: Path) -> None:
    graph = step()
    candidate = Eager().build(site(graph, tmp_path), settings)
    rule = Rule(num_gradients=len(graph.gradients), num_operators=len(graph.nodes))
    assert compare(function_of(graph), candidate, make_inputs(graph, 3), rule).detail == ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("settings", [{}, FORM])
def test_a_compiled_step_agrees_with_it(settings: dict[str, Any], tmp_path: Path) -> None:
    graph = step()
    candidate = Inductor().build(site(graph, tmp_path), settings)
    rule = Rule(num_gradients=len(graph.gradients), num_operators=len(graph.nodes))
    assert compare(function_of(graph), candidate, make_inputs(graph, 3), rule).detail == ""


def site_with_a_number(folder: Path) -> Site:
    """A step whose module has a tensor of its own, as `z[:, 1] = 0` makes one: a constant among the inputs."""
    inputs = [spec(2, 3), replace(spec(1), constant=True)]
    nodes = [Node(operator="aten::mul.Tensor", arguments=[value(0), value(1)])]
    graph = as_step(with_values(Graph(inputs=inputs, nodes=nodes, outputs=[2])), [0])
    return Site(graph=graph, constants={1: torch.full((1,), 2.0)}, example=make_inputs(graph, 0)[::2], folder=folder)


@pytest.mark.parametrize(
    "engine", [Eager(), pytest.param(Inductor(), marks=pytest.mark.slow)], ids=lambda engine: engine.name
)
def test_a_step_of_a_module_with_numbers_of_its_own_is_computed(engine: Any, tmp_path: Path) -> None:
    made = site_with_a_number(tmp_path)
    x, gradient = torch.randn(2, 3), torch.randn(2, 3)
    outputs, to_x = engine.build(made, {})(x, gradient)
    assert torch.allclose(outputs, x * 2)
    assert torch.allclose(to_x, gradient * 2)


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("settings", [{}, FORM])
def test_a_compiled_step_is_found_again_forward_and_backward(settings: dict[str, Any], tmp_path: Path) -> None:
    """As another process finds it that loads a plan: the folder was renamed when all was in it."""
    from torch._dynamo.utils import counters

    draft, place = tmp_path / "draft", tmp_path / "place"
    draft.mkdir()
    Inductor().build(site(step(), draft), settings)
    draft.rename(place)
    counters.clear()
    loaded = Inductor().load(site(step(), place), settings)
    before = {file for file in place.rglob("*") if file.is_file()}
    assert not compare(function_of(step(), {}), loaded, make_inputs(step(), 1), Rule(num_gradients=4)).detail
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    assert counters["inductor"]["fxgraph_cache_hit"] == 2
    assert {file for file in place.rglob("*") if file.is_file()} == before


def test_the_form_has_products_its_own_normalisation_and_no_copy_between_them() -> None:
    from jumar.tune.graph.fx import annotated

    names = [name_of(node) for node in in_form(annotated(block()), NORMS).graph.nodes]
    assert (names.count("linear"), names.count("conv2d")) == (1, 0)
    assert (names.count("batch_norm"), names.count("relu"), names.count("view")) == (1, 0, 0)


def test_a_wrong_gradient_disagrees() -> None:
    graph = step()
    plain = function_of(graph)

    def candidate(*tensors: torch.Tensor) -> list[torch.Tensor]:
        made = list(plain(*tensors))
        return [*made[:-3], made[-3] * 1.01, *made[-2:]]

    rule = Rule(num_gradients=len(graph.gradients))
    assert "of the greatest value" in compare(plain, candidate, make_inputs(graph, 3), rule).detail


def test_gradients_that_are_off_everywhere_disagree_though_each_is_within_the_greatest_error() -> None:
    """The default jumps on one small gradient; the candidate is off by as much on all."""
    jump = [0.0]

    def plain(x: torch.Tensor) -> list[torch.Tensor]:
        small = x[:2] * (1 + jump[0] if x.dtype is torch.float32 else 1)
        return [x * 1.0, small]

    def candidate(x: torch.Tensor) -> list[torch.Tensor]:
        return [x * 1.02, x[:2] * 1.02]

    jump[0] = 0.01
    x = torch.linspace(1, 2, 2000)
    assert "together" in compare(plain, candidate, [x], Rule(num_gradients=2)).detail
    assert "greatest" in compare(plain, candidate, [x], Rule()).detail


def test_a_gradient_that_is_zero_but_for_rounding_is_judged_by_the_others() -> None:
    def plain(x: torch.Tensor) -> list[torch.Tensor]:
        return [x * 1.0, x * 1e-17]

    def candidate(x: torch.Tensor) -> list[torch.Tensor]:
        return [x * 1.0, x * -3e-17]

    x = torch.linspace(1, 2, 50)
    assert compare(plain, candidate, [x], Rule(num_gradients=2)).detail == ""
    assert compare(plain, candidate, [x], Rule()).detail


def test_only_engines_that_take_steps_are_offered_and_nothing_is_cut() -> None:
    from jumar.tune.plan.engines import ENGINES

    graph = step()
    offers = whole_plans(graph, this_machine(), ENGINES, Space())
    assert {plan.regions[0].engine for plan in offers.plans} <= {"eager", "inductor"}
    assert "eager" in {plan.regions[0].engine for plan in offers.plans}
    assert set(offers.left_out.values()) >= {"It computes no gradients."}
    assert not any(one.batch or one.num_threads for one in variants(offers.plans[0], graph, this_machine(), Space()))


# ---- forms -------------------------------------------------------------------------------------------------------


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    """Return the function as TorchDynamo hands it over: calls of PyTorch's Python functions, values beside them."""
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    module = fx.symbolic_trace(function)
    FakeTensorProp(module).propagate(*inputs)
    return module


def handed_over(function: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    """Return what TorchDynamo makes of the function, writes to parts and to views among it."""
    made: list[fx.GraphModule] = []

    def backend(module: fx.GraphModule, _arguments: object) -> Callable[..., Any]:
        made.append(module)
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(*inputs)
    return made[0]


def written_through_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.view(-1).add_(1)
    return y


def written_through_a_view_by_relu(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    functional.relu(y.flatten(1), inplace=True)
    return y


def written_through_a_view_by_position(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    functional.hardtanh(y.reshape(-1), -0.5, 0.5, True)
    return y


def written_through_a_view_by_assignment(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    view = y.view(-1)
    view += 3
    return y


def written_through_a_part_of_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.view(-1)[:5] = 0
    return y


def written_below_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    view = y.view(-1)
    y.add_(1)
    return view * view


def written_below_the_view_of_a_part(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    view = y.transpose(1, 2).contiguous()
    y.add_(1)
    return view * y.transpose(1, 2)


def written_before_a_view(x: torch.Tensor) -> torch.Tensor:
    y = functional.silu(x * 2, inplace=True)
    y += 1
    left, right = y.chunk(2, 1)
    left.mul_(3)
    y = torch.cat([y, functional.hardtanh(right * 2, -0.5, 0.5, True)], 1)
    y[:, 1] = 0
    return y.flatten(1) * 2


WRITES = [
    written_through_a_view, written_through_a_view_by_relu, written_through_a_view_by_position,
    written_through_a_view_by_assignment, written_through_a_part_of_a_view, written_below_a_view,
    written_below_the_view_of_a_part,
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "reason"),
    [*((function, "a view shares") for function in WRITES), (lambda x: x.as_strided((2,), (1,)) * 2, "reads strides")],
)
def test_a_module_that_depends_on_strides_is_left(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(TuneError, match=reason):
        in_form(handed_over(function, torch.ones(1, 2, 3, 3)), FORM)


def test_what_is_written_to_before_a_view_depends_on_it_takes_the_form() -> None:
    x = torch.randn(2, 4, 3, 3)
    made = in_form(handed_over(written_before_a_view, x), FORM)
    assert torch.allclose(made(x)[0], written_before_a_view(x))  # vectors and their rests round an exponential apart


def test_a_view_in_the_shape_of_another_tensor_takes_the_form() -> None:
    x, like = torch.randn(2, 4, 3, 3), torch.randn(2, 36)

    def function(image: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return (image * 2).view_as(rows) * rows

    made = in_form(handed_over(function, x, like), FORM)
    assert torch.allclose(made(x, like)[0], function(x, like))


def test_results_keep_their_strides_and_the_module_is_left_as_it_was() -> None:
    weight, x = torch.randn(8, 3, 3, 3), torch.randn(2, 3, 6, 6)
    module = traced(lambda image, filters: functional.conv2d(image, filters).relu(), x, weight)
    before = module.code
    made = in_form(module, FORM)(x, weight)
    assert made.stride() == module(x, weight).stride()
    assert torch.allclose(made, module(x, weight), atol=1e-5)
    assert module.code == before


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, (2, 2)])
def test_only_plain_convolutions_of_one_pixel_become_products(groups: int, stride: Any) -> None:
    x, weight = torch.randn(2, 4, 6, 6), torch.randn(8, 4 // groups, 1, 1)
    module = traced(lambda image, filters: functional.conv2d(image, filters, stride=stride, groups=groups), x, weight)
    made = in_form(module, FORM)
    names = [name_of(node) for node in made.graph.nodes]
    assert ("linear" in names) is (groups == 1 and stride == 1)
    assert torch.allclose(made(x, weight), module(x, weight), atol=1e-5)


def test_what_a_module_writes_to_is_written_in_every_form() -> None:
    counter, x = torch.zeros((), dtype=torch.int64), torch.randn(1, 2, 3, 3)

    def function(image: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return image * 2

    in_form(traced(function, x, counter.clone()), FORM)(x, counter)
    assert int(counter) == 1


# ---- the kernel --------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (3, 70, 9, 7), (1, 1, 2, 1), (2, 130, 16, 16)])
def test_our_normalisation_is_that_of_pytorch_in_float64(shape: tuple[int, ...], relu: bool, threads: int) -> None:
    torch.manual_seed(4)
    layer = nn.BatchNorm2d(shape[1]).double()
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    nn.init.normal_(layer.bias)
    x = torch.randn(shape, dtype=torch.float64) * 3 + 7
    gradient = torch.randn(shape, dtype=torch.float64)
    expected = gradients_of(lambda image: torch.relu(layer(image)) if relu else layer(image), x, gradient, layer)
    expected += [layer.running_mean, layer.running_var]
    mine = nn.BatchNorm2d(shape[1])
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(mine, name).copy_(getattr(layer, name))

    def own(image: torch.Tensor) -> torch.Tensor:
        return batch_norm(image, mine.running_mean, mine.running_var, mine.weight, mine.bias, 0.1, 1e-5, relu)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        actual = gradients_of(own, x.float().contiguous(memory_format=torch.channels_last), gradient.float(), mine)
    finally:
        torch.set_num_threads(before)
    actual += [mine.running_mean, mine.running_var]
    for one, other in zip(expected, actual, strict=True):
        assert torch.allclose(one, other.double(), atol=2e-5, rtol=2e-5)


def gradients_of(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, gradient: torch.Tensor, layer: nn.Module
) -> list[torch.Tensor]:
    image = x.detach().requires_grad_()
    out = function(image)
    return [out.detach(), *torch.autograd.grad(out, [image, *layer.parameters()], gradient)]


@needs_compiler
def test_nan_comes_through_our_normalisation() -> None:
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    x[0, 1, 2, 3] = float("nan")
    out = batch_norm(x, None, None, torch.ones(3), torch.zeros(3), 0.1, 1e-5, True)
    assert bool(out[:, 1].isnan().all())
    assert not bool(out[:, [0, 2]].isnan().any())


def test_what_the_kernel_does_not_take_is_computed_by_pytorch() -> None:
    x = torch.randn(2, 3, 4, 4)
    expected = functional.relu(functional.batch_norm(x, None, None, training=True))
    assert torch.equal(batch_norm(x, None, None, torch.ones(3), torch.zeros(3), 0.1, 1e-5, True), expected)
