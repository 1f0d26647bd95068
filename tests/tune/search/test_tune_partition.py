"""The cheapest way through blocks and engines, where graphs are cut, and how batches are split."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_models import Convolutions, exported

from jumar.tune.plan import Region
from jumar.tune.plan.respecialise import splits
from jumar.tune.search.subgraph.cuts import blocks_of, borders
from jumar.tune.search.subgraph.outcome import Block
from jumar.tune.search.subgraph.stitching import Choice, Costs, cheapest, costs_of, runs

TIMES = st.integers(1, 1000).map(float)


@st.composite
def costs(draw):
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    count = draw(st.integers(1, 6))
    blocks = [
        {name: draw(TIMES) for name in draw(st.lists(st.sampled_from(names), min_size=1, unique=True))}
        for _ in range(count)
    ]
    joined = {name: draw(st.lists(TIMES, min_size=count, max_size=count)) for name in names if draw(st.booleans())}
    return Costs(blocks=blocks, joined=joined, switch=draw(TIMES))


@given(costs())
@settings(derandomize=True, max_examples=300)
def test_the_cheapest_way_is_the_least_of_all_ways(given_costs):
    ways = product(*[sorted(block) for block in given_costs.blocks])
    engines, total = cheapest(given_costs)
    assert total == pytest.approx(min(given_costs.total(way) for way in ways))
    assert total == pytest.approx(given_costs.total(engines))


def test_a_block_without_an_engine_has_no_way():
    assert cheapest(Costs(blocks=[{"a": 1.0}, {}])) is None


def test_a_locally_faster_engine_that_loses_at_its_borders_is_not_chosen():
    blocks = [{"a": 10.0, "b": 20.0}, {"a": 10.0, "b": 8.0}, {"a": 10.0, "b": 20.0}]
    assert cheapest(Costs(blocks=blocks)) == (["a", "b", "a"], 28.0)
    assert cheapest(Costs(blocks=blocks, switch=2.0)) == (["a", "a", "a"], 30.0)
    assert cheapest(Costs(blocks=blocks, joined={"a": [0.0, 2.0, 2.0]})) == (["a", "a", "a"], 26.0)


@given(st.lists(st.sampled_from("ab"), max_size=8))
@settings(derandomize=True)
def test_runs_are_the_engines_again(engines):
    assert [engine for start, stop, engine in runs(engines) for _ in range(stop - start)] == engines


@given(st.integers(0, 64), st.booleans())
@settings(derandomize=True)
def test_splits_add_up_to_the_batch_and_are_equal_unless_uneven_ones_are_wanted(batch, is_uneven):
    found = splits(batch, is_uneven=is_uneven)
    assert all(sum(sizes) == batch and len(sizes) > 1 for sizes in found)
    assert all(max(sizes) - min(sizes) <= is_uneven for sizes in found)
    assert len(found) == len(set(found))


def test_a_batch_of_seven_is_split_unevenly_as_the_vendor_does():
    assert splits(7, is_uneven=True)[0] == (4, 3)
    assert splits(7, is_uneven=False) == [(1,) * 7]


def test_borders_lie_where_one_value_crosses():
    graph, _ = exported(Convolutions(), torch.randn(2, 3, 8, 8))
    names = [graph.producer(value).operator for value in borders(graph)]
    skipped = [
        graph.producer(value).operator for value in range(len(graph.inputs), len(graph.inputs) + len(graph.nodes))
    ]
    assert "aten::conv2d" not in names[:1], "the skip of the residual block crosses before its convolution"
    assert len(names) < len(skipped)
    for value in borders(graph):
        parts = [range(len(graph.inputs), value), range(value, len(graph.inputs) + len(graph.nodes))]
        after = graph.part(parts[1])
        assert sum(not spec.constant for spec in after.graph.inputs) == 1


class Tower(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(12))

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.nn.functional.gelu(block(x))
        return x


def test_blocks_hold_all_nodes_in_order_and_equal_blocks_have_equal_keys():
    graph, _ = exported(Tower(), torch.randn(4, 32))
    blocks = blocks_of(graph, max_blocks=12)
    first = len(graph.inputs)
    assert [value for block in blocks for value in block] == list(range(first, first + len(graph.nodes)))
    assert len(blocks) == 12
    assert len({graph.part(block).graph.key for block in blocks}) == 1


def test_what_joining_saves_is_the_difference_to_the_whole():
    graph, _ = exported(Tower(), torch.randn(4, 32))
    nodes = blocks_of(graph, max_blocks=12)
    blocks = [Block(first=one[0], num_operators=3, key="", engines_us={"a": 10.0, "b": 12.0}) for one in nodes]
    choices = {
        "a": Choice(Region(nodes=(), engine="a"), 100.0),
        "b": Choice(Region(nodes=(), engine="b"), None),
    }
    found = costs_of(graph, blocks, choices)
    assert found.total(["a"] * 12) == pytest.approx(100.0)
    assert found.total(["b"] * 12) == pytest.approx(144.0)


@pytest.mark.timeout(60)
def test_a_graph_of_many_views_and_no_work_is_one_block():
    def turned(x):
        for _ in range(30):
            x = x.unsqueeze(0).squeeze(0)
        return x

    class Turned(torch.nn.Module):
        def forward(self, x):
            return turned(x)

    graph, _ = exported(Turned(), torch.randn(2, 3))
    assert blocks_of(graph) == [tuple(range(1, 61))]
