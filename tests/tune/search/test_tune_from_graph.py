"""The operators of a model's graph are tasks, counted, weights told apart, the most work first."""

from __future__ import annotations

import torch
from plan_models import Convolutions, Tokens, exported

from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.operators import graph_of
from jumar.tune.search.tasks.source import extract_graphs


def extraction(tmp_path, model, example):
    graph, _ = exported(model, example)
    return extract_graphs([Captured(graph=graph, data=tmp_path / "data.pt", name="net")]), graph


def test_operators_that_are_tuned_become_tasks_and_the_others_are_listed(tmp_path):
    found, graph = extraction(tmp_path, Convolutions(), torch.randn(2, 3, 8, 8))
    assert [use.task.base for use in found.tasks] == ["conv2d", "conv2d", "mean", "linear"]
    assert found.tasks[0].name == "net/conv2d_OPAT_0"
    assert found.num_calls == len(graph.nodes)
    assert sum(use.num_calls for use in [*found.tasks, *found.not_tuned]) == len(graph.nodes)
    assert "aten::relu" in {one.operator for one in found.not_tuned}


def test_weights_stay_weights(tmp_path):
    found, _ = extraction(tmp_path, Convolutions(), torch.randn(2, 3, 8, 8))
    tensors = found.tasks[0].task.tensors
    assert {name: spec.constant for name, spec in tensors.items()} == {"input": False, "weight": True, "bias": True}


def test_equal_calls_are_one_task_and_a_list_of_tensors_is_none(tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.cat([torch.softmax(x, -1), torch.softmax(x + 1, -1)])

    found, _ = extraction(tmp_path, Twice(), torch.randn(4, 5))
    assert [(use.task.operator, use.num_calls) for use in found.tasks] == [("aten::softmax.int", 2)]


def test_every_task_computes_what_its_node_does(tmp_path):
    for model, example in ((Convolutions(), torch.randn(2, 3, 8, 8)), (Tokens(), torch.randn(2, 7, 16))):
        found, graph = extraction(tmp_path, model, example)
        whole = {node.operator for node in graph.nodes}
        for use in found.tasks:
            alone = graph_of(use.task)
            assert alone.nodes[0].operator in whole
            assert alone.values[0] in [spec for spec in graph.values if spec is not None]
