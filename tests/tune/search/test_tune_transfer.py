"""A plan of another graph of the same structure, as the beginning of a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from plan_models import Convolutions, exported
from tune_builders import MACHINE, gain

from jumar.tune.bank.store import Bank
from jumar.tune.engines.base import Engine
from jumar.tune.graph.operators import task_of_node
from jumar.tune.model.task import Policy
from jumar.tune.plan import Plan, Region
from jumar.tune.providers.operators import Operators, settings_of
from jumar.tune.search.subgraph.tune import transferred


class Known(Engine):
    """An engine by name only."""

    def __init__(self, name: str, version: str = "2", missing: str = "", refuses: str = "") -> None:
        self.name, self._version, self._missing, self._refuses = name, version, missing, refuses

    def unavailable(self, machine):
        return self._missing

    def version(self):
        return self._version

    def unsupported(self, graph):
        return self._refuses

    def settings(self, graph, machine, precision="fp32"):
        return []

    def build(self, site, settings):
        raise NotImplementedError

    load = build


FAST = Known("fast")


def graph_of(batch: int, size: int = 8):
    return exported(Convolutions(), torch.randn(batch, 3, size, size))[0]


def plan(**fields) -> Plan:
    return Plan(regions=(Region(nodes=(), engine="fast", settings={"a": 1}, version="1"),), **fields)


def found(folder: Path, known: Plan, engines=(FAST,), *, batch=4, machine=MACHINE, near=8):
    """Return what comes of `known`, the bank's plan for a batch of `near`, for a batch of `batch`."""
    bank = Bank.open(folder)
    bank.accept(graph_of(near), MACHINE, known.policy(), incumbent=(), gain=gain(1.5), min_gain=0.02, tried=[])
    asked = graph_of(batch)
    (neighbour,) = bank.nearest(asked, machine)
    bank.close()
    return transferred(neighbour, asked, engines, machine)


def test_settings_stay_and_the_version_is_the_one_here(tmp_path):
    assert found(tmp_path, plan()) == Plan(regions=(Region(nodes=(), engine="fast", settings={"a": 1}, version="2"),))


@pytest.mark.parametrize(
    ("pieces", "batch", "expected"),
    [
        ((4, 4), 4, (2, 2)),
        ((6, 2), 4, (3, 1)),
        ((1,) * 8, 16, (2,) * 8),
        ((1,) * 8, 4, ()),
        ((5, 3), 4, ()),
    ],
)
def test_pieces_of_the_batch_keep_their_proportions_or_are_dropped(tmp_path, pieces, batch, expected):
    assert found(tmp_path, plan(batch=pieces), batch=batch).batch == expected


def test_without_its_pieces_a_plan_runs_nothing_at_once_and_has_all_threads(tmp_path):
    side_by_side = plan(batch=(1,) * 8, streams=2, num_threads=1)
    made = found(tmp_path, side_by_side, batch=4)
    assert (made.batch, made.streams, made.num_threads) == ((), 1, None)


def test_pieces_that_are_scaled_run_at_once_as_before(tmp_path):
    made = found(tmp_path, plan(batch=(1,) * 8, streams=2, num_threads=1), batch=16)
    assert (made.batch, made.streams, made.num_threads) == ((2,) * 8, 2, 1)


def test_threads_are_no_more_than_there_are(tmp_path):
    fewer = replace(MACHINE, num_threads=1)
    assert found(tmp_path, plan(num_threads=2), machine=fewer).num_threads == 1


@pytest.mark.parametrize(
    "engines", [(), (Known("fast", missing="it is not installed"),), (Known("fast", refuses="it has convolutions"),)]
)
def test_a_plan_whose_engine_cannot_do_it_is_left(tmp_path, engines):
    assert found(tmp_path, plan(), engines) is None


def test_regions_are_of_the_same_values(tmp_path):
    graph = graph_of(8)
    first = len(graph.inputs)
    half = first + len(graph.nodes) // 2
    regions = (
        Region(nodes=tuple(range(first, half)), engine="fast", version="1"),
        Region(nodes=tuple(range(half, first + len(graph.nodes))), engine="other", version="1"),
    )
    made = found(tmp_path, Plan(regions=regions), (Known("fast", refuses="not whole"), Known("other")))
    assert [tuple(region.nodes) for region in made.regions] == [tuple(region.nodes) for region in regions]


def test_policies_of_operators_go_to_their_counterparts(tmp_path):
    task = task_of_node(graph_of(8), graph_of(8).nodes[0])
    policy = Policy(kind="Impl", provider="aten_native", settings={})
    region = Region(nodes=(), engine="operators", settings=settings_of({task.key: (policy,)}), version="1")
    made = found(tmp_path, Plan(regions=(region,)), engines=(Operators(),))
    own = task_of_node(graph_of(4), graph_of(4).nodes[0])
    assert made.regions[0].settings == settings_of({own.key: (policy,)})
