"""Training steps that draw random numbers: compared with equal numbers, timed with those each engine draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.base.native import compiler
from jumar.tune.backend.collect import read_collected
from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.engines.eager import Eager
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import with_values
from jumar.tune.graph.graph import Node
from jumar.tune.graph.inputs import make_inputs
from jumar.tune.graph.operators import draws
from jumar.tune.graph.steps import as_step, stepped
from jumar.tune.measure.worker.messages import Effort, Outcome, Trial
from jumar.tune.measure.worker.trial import Case, run_trial
from jumar.tune.model.task import TensorSpec, contiguous_stride
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.provider import PlanProvider

FORM = {"layout": "channels_last", "products": True}
NORMS = FORM | {"norms": True}
needs_compiler = pytest.mark.skipif(not compiler(), reason="our kernels need a C++ compiler")


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape=shape, dtype="float32", stride=contiguous_stride(shape))


def value(number: int) -> dict[str, Any]:
    return {"value": number}


def classifier(share: float = 0.5, *, of_images: bool = False) -> Graph:
    """A step: filters of one pixel, their normalisation, a mean over the pixels, and dropout before or behind it."""
    drop = Node(operator="aten::dropout", arguments=[value(5), share, True])
    mean = Node(operator="aten::mean.dim", arguments=[value(5), [2, 3]])
    nodes = [
        Node(operator="aten::conv2d", arguments=[value(0), value(1)]),
        Node(operator="aten::batch_norm", arguments=[value(4), value(2), value(3), None, None, True, 0.1, 1e-5, False]),
        *([drop, mean] if of_images else [mean, drop]),
    ]
    last = nodes[-1]
    nodes[-1] = Node(operator=last.operator, arguments=[value(6), *last.arguments[1:]])
    inputs = [spec(4, 3, 5, 5), spec(64, 3, 1, 1), spec(64), spec(64)]
    return as_step(with_values(Graph(inputs=inputs, nodes=nodes, outputs=[7])), [0, 1, 2, 3])


def site(graph: Graph, folder: Path, *, draws_as_eager: bool = True) -> Site:
    return Site(graph=graph, constants={}, example=make_inputs(graph, 0), folder=folder, draws_as_eager=draws_as_eager)


def judged(graph: Graph, candidate: GraphFunction) -> str:
    return Case(graph, seed=3).judge(candidate, ()).compare().detail


def trial(graph: Graph, engine: str, settings: dict[str, Any], folder: Path) -> Outcome:
    plan = Plan(regions=(Region(nodes=(), engine=engine, settings=settings),))
    made = Trial(
        task=graph, incumbent=(), candidate=(plan.policy(),), num_threads=1,
        effort=Effort(seconds=0.05, min_pairs=3, max_pairs=5, max_wait_share=1e9),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        return run_trial(made, [PlanProvider()], lambda _: None, folder)


@pytest.mark.parametrize(("share", "expected"), [(0.5, True), (0.0, False)])
def test_a_graph_tells_whether_it_draws(share: float, expected: bool) -> None:
    assert draws(classifier(share)) is expected


@pytest.mark.parametrize("settings", [{}, {"layout": "channels_last"}, FORM, pytest.param(NORMS, marks=needs_compiler)])
def test_every_form_of_a_step_with_dropout_agrees_with_it(settings: dict[str, Any], tmp_path: Path) -> None:
    graph = classifier()
    assert judged(graph, Eager().build(site(graph, tmp_path), settings)) == ""


@pytest.mark.parametrize("share", [0.0, 0.4, 0.6])
def test_another_share_of_dropout_disagrees(share: float, tmp_path: Path) -> None:
    other = classifier(share)
    assert "its error is" in judged(classifier(), Eager().build(site(other, tmp_path), {}))


def test_a_mask_that_is_not_that_of_the_backward_disagrees() -> None:
    def forward(images: torch.Tensor, filters: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *_: Any) -> Any:
        norm = functional.batch_norm(functional.conv2d(images, filters), None, None, weight, bias, training=True)
        means = norm.mean((2, 3))
        dropped = functional.dropout(means, 0.5, training=True)
        return (means + (dropped - means).detach(),)

    graph = classifier()
    assert "its error is" in judged(graph, stepped(graph, forward))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("draws_as_eager", [True, False])
def test_a_compiled_step_agrees_only_where_it_draws_as_eager_does(draws_as_eager: bool, tmp_path: Path) -> None:
    graph = classifier()
    candidate = Inductor().build(site(graph, tmp_path, draws_as_eager=draws_as_eager), {})
    assert (judged(graph, candidate) == "") is draws_as_eager


@pytest.mark.parametrize(
    ("engine", "settings"),
    [("eager", FORM), pytest.param("inductor", {}, marks=pytest.mark.slow)],
)
def test_a_step_with_dropout_is_measured(engine: str, settings: dict[str, Any], tmp_path: Path) -> None:
    outcome = trial(classifier(), engine, settings, tmp_path)
    assert (outcome.status, outcome.detail) == ("measured", "")


def test_a_layout_is_refused_that_moves_which_element_gets_which_number(tmp_path: Path) -> None:
    outcome = trial(classifier(of_images=True), "eager", FORM, tmp_path)
    assert (outcome.status, outcome.is_refusal) == ("failed", True)
    assert outcome.detail.startswith("dropout draws a number for each element of images")
    assert trial(classifier(of_images=True), "eager", {}, tmp_path).status == "measured"


@pytest.mark.parametrize(
    "drawing",
    [
        nn.Dropout(0.2),
        lambda x: functional.dropout(x, 0.3, training=True, inplace=False),
        lambda x: x * torch.bernoulli(torch.full_like(x, 0.7)),
        lambda x: x + torch.randn_like(x) * 0.1,
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)[0],
    ],
    ids=["module", "function", "bernoulli", "noise", "attention"],
)
def test_a_module_that_draws_in_training_is_collected_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawing: Any
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(drawing(self.first(x)))

    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path / "graphs"))
    torch._dynamo.reset()
    torch.compile(Net(), backend="jumar")(torch.randn(6, 8)).sum().backward()
    (step,) = read_collected(tmp_path / "graphs")
    assert step.graph.gradients
    assert draws(step.graph)
    outcome = trial(step.graph, "eager", {}, tmp_path)
    assert (outcome.status, outcome.detail) == ("measured", "")
