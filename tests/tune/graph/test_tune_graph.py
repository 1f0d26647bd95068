"""Graphs as plain data: to and from fx, canonical keys, parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from jumar.tune.graph import Graph
from jumar.tune.graph.fx import from_fx, to_fx
from jumar.tune.model.errors import TuneError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(self.convolution(x)).relu().mean((2, 3))).softmax(-1)


def exported(model: nn.Module, *inputs: torch.Tensor) -> tuple[Graph, list[torch.Tensor]]:
    program = torch.export.export(model.eval(), inputs)
    specs = program.graph_signature.input_specs
    known: dict[str | None, Any] = {**program.state_dict, **program.constants}
    given = iter(inputs)
    values = [known[spec.target] if spec.target in known else next(given) for spec in specs]
    weights = [place for place, spec in enumerate(specs) if spec.target in known]
    return from_fx(program.graph_module, weights)[0], values


def test_a_graph_computes_what_the_model_computes_also_after_json() -> None:
    x = torch.randn(2, 3, 8, 8)
    model = Net()
    graph, values = exported(model, x)
    again = Graph.from_json(json.loads(json.dumps(graph.to_json())))
    assert again.key == graph.key
    with torch.no_grad():
        assert torch.equal(to_fx(again)(*values)[0], model(x))


def test_the_key_knows_shapes_and_weights_but_not_their_values() -> None:
    keys = [exported(Net(), torch.randn(size, 3, 8, 8))[0].key for size in (2, 2, 3)]
    assert keys[0] == keys[1] != keys[2]


def test_independent_operators_have_one_order_however_they_were_written() -> None:
    def one(x: torch.Tensor) -> torch.Tensor:
        left = x.sin()
        right = x.cos()
        return left - right

    def other(x: torch.Tensor) -> torch.Tensor:
        right = x.cos()
        left = x.sin()
        return left - right

    class Wrapped(nn.Module):
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.forward = function

    keys = {exported(Wrapped(function), torch.randn(3))[0].key for function in (one, other)}
    assert len(keys) == 1


def test_parts_put_together_are_the_whole() -> None:
    x = torch.randn(2, 3, 8, 8)
    graph, inputs = exported(Net(), x)
    first = len(graph.inputs)
    cut = first + len(graph.nodes) // 2
    values = dict(enumerate(inputs))
    for nodes in (range(first, cut), range(cut, first + len(graph.nodes))):
        part = graph.part(nodes)
        with torch.no_grad():
            made = to_fx(part.graph)(*[values[value] for value in part.taken])
        values.update(zip(part.given, made, strict=True))
    assert graph.outputs[0] is not None
    with torch.no_grad():
        assert torch.equal(values[graph.outputs[0]], to_fx(graph)(*inputs)[0])


def test_a_dynamic_shape_is_refused_with_what_to_do() -> None:
    program = torch.export.export(
        Net().eval(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    with pytest.raises(TuneError, match="dynamic shape"):
        from_fx(program.graph_module)
