"""Graphs round trip through JSON and through fx, and one computation has one key however it is written."""

from __future__ import annotations

import json
import logging
import logging.handlers
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tune_builders import mm_task, spec

from jumar.tune.graph import Graph, Node
from jumar.tune.graph.fx import annotated, from_fx, to_fx, with_values
from jumar.tune.graph.graph import distance, structure_of
from jumar.tune.graph.reading.normal import in_order
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec, contiguous_stride

ONE = ["aten::sin", "aten::relu", "aten::neg", "aten::t"]
TWO = ["aten::add.Tensor", "aten::mul.Tensor", "aten::mm", "aten::maximum"]
SIZE = 3


@st.composite
def graphs(draw) -> Graph:
    """Graphs of square matrices, every node of which some output needs."""
    num_inputs = draw(st.integers(1, 4))
    constants = draw(st.lists(st.booleans(), min_size=num_inputs, max_size=num_inputs))
    inputs = [
        TensorSpec(shape=(SIZE, SIZE), dtype="float64", stride=(SIZE, 1), constant=constant) for constant in constants
    ]
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 8))):
        values = st.integers(0, num_inputs + number - 1)
        if draw(st.booleans()):
            nodes.append(Node(operator=draw(st.sampled_from(ONE)), arguments=[{"value": draw(values)}]))
            continue
        operator = draw(st.sampled_from(TWO))
        keywords = {"alpha": draw(st.integers(1, 3))} if "add" in operator and draw(st.booleans()) else {}
        arguments = [{"value": draw(values)}, {"value": draw(values)}]
        nodes.append(Node(operator=operator, arguments=arguments, keywords=keywords))
    read = {value for node in nodes for value in node.references()}
    made = range(num_inputs, num_inputs + len(nodes))
    outputs = [value for value in made if value not in read]
    return Graph(inputs=inputs, nodes=nodes, outputs=draw(st.permutations(outputs)))


def canonical(graph: Graph) -> Graph:
    return from_fx(annotated(graph), graph.constants)[0]


def shuffled(graph: Graph, seed: int) -> Graph:
    """Return the graph with its nodes in another order that is possible."""
    order, chooser = [], random.Random(seed)
    first = len(graph.inputs)
    waiting = dict(enumerate(graph.nodes, first))
    while waiting:
        ready = [number for number, node in waiting.items() if not set(node.references()) & set(waiting)]
        order.append(chooser.choice(ready))
        del waiting[order[-1]]
    numbers = {value: value for value in range(first)} | {old: first + new for new, old in enumerate(order)}
    nodes = [graph.nodes[old - first].renumbered(numbers.__getitem__) for old in order]
    return Graph(inputs=graph.inputs, nodes=nodes, outputs=[numbers[value] for value in graph.outputs])


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_a_graph_survives_json_and_fx_with_its_key(graph):
    once = canonical(graph)
    again = Graph.from_json(json.loads(json.dumps(once.to_json())))
    assert (again, again.key, again.values) == (once, once.key, once.values)
    assert canonical(once).key == once.key


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 1000))
def test_the_order_in_which_operators_were_written_is_no_part_of_the_key(graph, seed):
    assert canonical(shuffled(graph, seed)).key == canonical(graph).key


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_the_canonical_graph_and_the_one_with_ordered_inputs_compute_the_same(graph):
    once = canonical(graph)
    ordered, _, places = in_order(once, {})
    tensors = [torch.randn(SIZE, SIZE, dtype=torch.float64) for _ in graph.inputs]
    expected = to_fx(graph)(*tensors)
    assert all(torch.equal(*pair) for pair in zip(to_fx(once)(*tensors), expected, strict=True))
    found = to_fx(ordered)(*[tensors[place] for place in places])
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    assert ordered.variables == list(range(len(ordered.variables)))


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(2, 9))
def test_graphs_of_other_sizes_have_one_structure_and_a_distance(graph, size):
    once = canonical(graph)
    inputs = [
        TensorSpec(shape=(size, size), dtype="float64", stride=contiguous_stride((size, size)), constant=one.constant)
        for one in once.inputs
    ]
    other = with_values(Graph(inputs=inputs, nodes=once.nodes, outputs=once.outputs))
    assert structure_of(other) == structure_of(once)
    assert (distance(once, other) == 0) == (size == SIZE)
    assert distance(once, other) == pytest.approx(distance(other, once))


def test_structure_knows_operators_dtypes_ranks_and_weights_and_not_sizes():
    task = mm_task(4)
    assert structure_of(task) == structure_of(mm_task(9))
    others = [
        spec(4, 8, dtype="float64"),
        spec(1, 4, 8),
        TensorSpec(shape=(4, 8), dtype="float32", stride=(8, 1), constant=True),
    ]
    changed = [
        type(task)(operator=task.operator, tensors={**task.tensors, "self": one}, arguments={}) for one in others
    ]
    assert len({structure_of(one) for one in [task, *changed]}) == 4
    with pytest.raises(ValueError, match="different structures"):
        distance(task, changed[0])


def test_integers_among_the_arguments_make_a_graph_more_distant_and_no_other_structure():
    def pooling(kernel: int) -> Graph:
        node = Node(operator="aten::max_pool2d", arguments=[{"value": 0}, [kernel, kernel]])
        return Graph(inputs=[spec(1, 1, 8, 8)], nodes=[node], outputs=[1])

    assert distance(pooling(2), pooling(4)) == pytest.approx(0.2)
    assert distance(pooling(2), pooling(2)) == 0


def test_what_an_operator_refuses_is_one_sentence_and_no_page_of_pytorchs_log():
    node = Node(operator="aten::add.Tensor", arguments=[{"value": 0}, {"value": 1}])
    graph = Graph(inputs=[spec(8, 4), spec(16, 4)], nodes=[node], outputs=[2])
    log, told = logging.getLogger("torch._subclasses.fake_tensor"), logging.handlers.BufferingHandler(100)
    log.addHandler(told)
    try:
        with pytest.raises(TuneError, match="the graph does not fit its inputs"):
            with_values(graph)
    finally:
        log.removeHandler(told)
    assert told.buffer == []
    assert not log.disabled
