"""Rounding to int8 where values are made: what only moves them then moves 8 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lowering_models import Attention, Residual, Shuffled, graph_of
from torch import nn
from tune_builders import needs_openvino

from jumar.tune.engines.base import Site
from jumar.tune.engines.openvino.engine import OpenVino
from jumar.tune.graph import Graph
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.data import load
from jumar.tune.graph.fx import overload
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import this_machine
from jumar.tune.plan.lowering.lowering import Lowering
from jumar.tune.plan.lowering.movers import Groups, shuffle_of
from jumar.tune.plan.lowering.observe import lowered_site, observe, run_watched
from jumar.tune.plan.lowering.rewrite import effective, lowered, rounded
from jumar.tune.search.precision.ways import has_moved, ways_of

ROUND = "aten::fake_quantize_per_tensor_affine"


def in_int8(graph: Graph, weights: dict[int, torch.Tensor], x: torch.Tensor, *, early: bool) -> Lowering:
    nodes = effective(graph, Lowering(nodes={len(graph.inputs) + n: "int8" for n in range(len(graph.nodes))}))
    asked = Lowering(nodes=nodes, early=early)
    return Lowering(nodes=nodes, early=early, ranges=observe(graph, weights, [[x]], rounded(graph, asked)))


def ran(model: nn.Module, x: torch.Tensor, *, early: bool) -> tuple[Graph, torch.Tensor, torch.Tensor]:
    """Return the lowered graph, its output, and that of the graph itself."""
    graph, weights = graph_of(model, x)
    (expected,) = run_watched(graph, weights, [x], {})
    site = Site(graph=graph, constants=weights, example=[x], folder=Path())
    site = lowered_site(site, in_int8(graph, weights, x, early=early))
    (actual,) = run_watched(site.graph, site.constants, [x], {})
    return site.graph, actual, expected


@pytest.mark.parametrize("named", [False, True])
def test_all_that_is_moved_is_rounded_once_where_it_is_made(named: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    graph, actual, expected = ran(Shuffled(named=named), x, early=True)
    made = [graph.nodes[next(node.references()) - len(graph.inputs)].operator for node in graph.nodes
            if node.operator == ROUND and next(node.references()) >= len(graph.inputs)]  # fmt: skip
    assert made == ["aten::relu"] * 3
    assert ((actual - expected).abs().max() / expected.abs().max()).item() < 4e-2


@pytest.mark.parametrize("named", [False, True])
def test_a_shuffle_of_rounded_channels_moves_rows(named: bool) -> None:
    torch.manual_seed(0)
    graph, _, _ = ran(Shuffled(named=named), torch.randn(1, 3, 8, 8), early=True)
    places = [place for place, node in enumerate(graph.nodes) if node.operator == "aten::transpose.int"]
    assert [graph.values[place].shape for place in places] == [(1, 4, 2, 1, 16)] * 2
    assert not {"aten::view", "aten::channel_shuffle"} & {node.operator for node in graph.nodes}


@pytest.mark.parametrize(("model", "shape"), [(Residual, (2, 3, 8, 8)), (Attention, (2, 6, 16))])
def test_other_graphs_are_rounded_early_as_well(model: type[nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    _, actual, expected = ran(model(), torch.randn(shape), early=True)
    assert (actual.shape, actual.dtype, actual.stride()) == (expected.shape, expected.dtype, expected.stride())
    assert 0 < ((actual - expected).abs().max() / expected.abs().max()).item() < 4e-2


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("permutes", [False, True])
def test_a_shuffle_is_recognised_in_any_dimension_and_its_steps_do_the_same(groups: int, permutes: bool) -> None:
    class Turned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            divided = x.view(3, groups, 8 // groups, 5)
            turned = divided.permute(0, 2, 1, 3) if permutes else divided.transpose(-3, -2)
            return turned.contiguous().view(3, 8, 5)

    x = torch.randn(3, 8, 5)
    graph, _ = graph_of(Turned(), x)
    output = graph.outputs[0]
    assert output is not None
    shuffle = shuffle_of(graph, output)
    assert shuffle is not None
    made = x
    for operator, arguments, shape, stride in shuffle.steps():
        made = overload(operator)(made, *arguments)
        assert (made.shape, made.stride()) == (shape, stride)
    assert torch.equal(made.reshape(shuffle.shape), Turned()(x))


def test_openvino_computes_it_as_it_is_written(tmp_path: Path) -> None:
    needs_openvino()
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    x = torch.randn(1, 3, 16, 16)
    graph, weights = graph_of(Shuffled(), x)
    site = Site(graph=graph, constants=weights, example=[x], folder=tmp_path)
    site = lowered_site(site, in_int8(graph, weights, x, early=True))
    (expected,) = run_watched(site.graph, site.constants, [x], {})
    (actual,) = OpenVino().build(site, {})(x)
    assert ((actual - expected).abs().max() / expected.abs().max()).item() < 2e-2


def test_what_looks_like_a_shuffle_and_is_none_is_left() -> None:
    class Folded(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.view(3, 2, 4, 5).transpose(2, 3).reshape(3, 8, 5), x.view(3, 8, 5, 1).transpose(0, 2).flatten()

    graph, _ = graph_of(Folded(), torch.randn(3, 8, 5))
    assert [shuffle_of(graph, value) for value in graph.outputs if value is not None] == [None, None]


def test_a_group_is_what_movers_connect() -> None:
    class Joined(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, y.t()]).flip(0).index_select(0, index).exp() + x

    graph, _ = graph_of(Joined(), torch.randn(2, 3), torch.randn(3, 2), torch.tensor([1, 0]))
    groups = Groups(graph)
    made = {node.operator: len(graph.inputs) + number for number, node in enumerate(graph.nodes)}
    floats = [place for place, spec in enumerate(graph.inputs) if spec.dtype == "float32"]
    (index,) = set(graph.variables) - set(floats)
    assert list(groups.sources(made["aten::flip"])) == floats
    assert groups.sources(made["aten::index_select"]) == (made["aten::index_select"],)
    assert groups.sources(index) == (index,)
    assert groups.is_moved(made["aten::flip"])


def test_what_moves_the_first_input_of_a_graph_is_a_mover_like_others(tmp_path: Path) -> None:
    class Shuffles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = self.convolution(nn.functional.channel_shuffle(x, 2))
            return made

    x = torch.randn(2, 4, 3, 3)
    captured = graph_of_module(Shuffles().eval(), (x,), folder=tmp_path, name="shuffles")
    graph, values = captured.graph, load(captured.data)
    assert graph.variables == [0]
    weights = {place: values[place] for place in graph.constants}
    lowering = in_int8(graph, weights, x, early=True)
    assert set(lowering.ranges) == {0}
    made = lowered(graph, lowering).graph
    assert [node.operator for node in made.nodes if next(node.references()) == 0] == [ROUND]


def test_rounding_early_is_tried_where_it_is_another_thing() -> None:
    shuffled, plain = graph_of(Shuffled(), torch.randn(1, 3, 8, 8))[0], graph_of(nn.Linear(4, 4), torch.randn(2, 4))[0]
    ways, _ = ways_of(shuffled, this_machine("cpu"), [OpenVino()], ["int8"])
    assert [way.early for way, _ in ways] in ([], [False, True])  # none where OpenVINO is not installed
    assert has_moved(shuffled)
    assert not has_moved(plain)


def test_a_source_without_a_range_is_named() -> None:
    graph, _ = graph_of(Shuffled(), torch.randn(1, 3, 8, 8))
    nodes = {len(graph.inputs) + number: "int8" for number in range(len(graph.nodes))}
    with pytest.raises(TuneError, match="range is not known"):
        lowered(graph, Lowering(nodes=nodes, early=True))  # type: ignore[arg-type]


def test_early_is_part_of_the_plain_data() -> None:
    early = Lowering(nodes={3: "int8"}, ranges={2: (0.0, 1.0)}, early=True)
    assert Lowering.from_json(early.to_json()) == early
    assert str(early) == "1 int8 early"
    with pytest.raises(TuneError, match="'fp4' is none"):
        Lowering.from_json({"fp4": [1]})
