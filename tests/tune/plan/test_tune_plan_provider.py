"""Plans in the worker: built once a run and loaded after that, and a whole search through real processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from plan_models import Plain, eager, exported, site_of, whole
from tune_builders import ONE_THREAD, QUICK

from jumar.tune.bank.store import Bank
from jumar.tune.graph.capture import data as graph_data
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.measure.measuring import Measurer
from jumar.tune.measure.options import Space, TuneOptions
from jumar.tune.measure.worker.client import Worker
from jumar.tune.measure.worker.messages import Limits
from jumar.tune.plan.provider import BUILDS, PlanProvider, sharing_builds
from jumar.tune.search.subgraph.tune import tune_graph


class Counting(Plain):
    """Notes every build and load in the file that the environment names."""

    def build(self, site, settings):
        _note("build")
        return super().build(site, settings)

    def load(self, site, settings):
        _note("load")
        return super().load(site, settings)


class Broken(Plain):
    name = "broken"

    def build(self, site, settings):
        (site.folder / "half").write_text("")
        raise RuntimeError("of no use")


class Eager(Plain):
    name = "eager"


class Separable(Plain):
    """Averages over windows in two passes: the same numbers, far fewer additions."""

    name = "separable"

    def build(self, site, settings):
        (site.folder / "built").write_text("")
        return self.load(site, settings)

    def load(self, site, settings):
        rows = torch.nn.AvgPool2d((17, 1), stride=1, padding=(8, 0))
        columns = torch.nn.AvgPool2d((1, 17), stride=1, padding=(0, 8))
        return lambda image: (columns(rows(image)),)


class Wrong(Plain):
    name = "wrong"

    def build(self, site, settings):
        (site.folder / "built").write_text("")
        return self.load(site, settings)

    def load(self, site, settings):
        function = eager(site)
        return lambda image: (function(image)[0] * 1.01,)


class Provider(PlanProvider):
    engines = (Counting(), Broken(), Eager(), Separable(), Wrong())


def _note(what: str) -> None:
    with Path(os.environ["JUMAR_TEST_NOTES"]).open("a") as file:
        file.write(what + "\n")


@pytest.fixture
def notes(tmp_path, monkeypatch):
    path = tmp_path / "notes"
    monkeypatch.setenv("JUMAR_TEST_NOTES", str(path))
    monkeypatch.delenv(BUILDS, raising=False)
    return path


class Pool(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([2.0]))

    def forward(self, x):
        return torch.nn.functional.avg_pool2d(x * self.scale, 17, stride=1, padding=8)


def apply(folder, graph, constants, image, engine="plain"):
    plan = whole()
    policy = plan.policy() if engine == "plain" else type(plan)(regions=[_region(engine)]).policy()
    function = Provider().apply(policy, None, [image], site_of(folder, graph, constants, [image]))
    with torch.no_grad():
        return function(image)[0]


def _region(engine):
    from jumar.tune.plan import Region

    return Region(nodes=(), engine=engine)


def test_a_run_builds_a_plan_once_for_the_same_weights(tmp_path, notes):
    image = torch.randn(2, 1, 20, 20)
    graph, constants = exported(Pool(), image)
    with sharing_builds() as folder:
        first = apply(tmp_path / "1", graph, constants, image)
        second = apply(tmp_path / "2", graph, constants, image)
        doubled = apply(tmp_path / "3", graph, {place: 2 * value for place, value in constants.items()}, image)
        assert len([one for one in folder.iterdir() if one.is_dir()]) == 2
    assert torch.equal(first, second)
    torch.testing.assert_close(doubled, 2 * first)
    assert notes.read_text().split() == ["build", "load", "load", "build", "load"]
    assert not folder.exists()
    assert BUILDS not in os.environ


def test_a_build_that_fails_leaves_nothing_to_load(tmp_path, notes):
    image = torch.randn(2, 1, 20, 20)
    graph, constants = exported(Pool(), image)
    with sharing_builds() as folder:
        for name in ("1", "2"):
            with pytest.raises(RuntimeError, match="of no use"):
                apply(tmp_path / name, graph, constants, image, "broken")
        assert list(folder.iterdir()) == []


def test_without_a_shared_folder_every_process_builds(tmp_path, notes):
    image = torch.randn(2, 1, 20, 20)
    graph, constants = exported(Pool(), image)
    apply(tmp_path / "1", graph, constants, image)
    assert notes.read_text().split() == ["build"]


class Plain17(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool2d(x, 17, stride=1, padding=8)


@pytest.mark.slow
def test_a_search_through_real_processes_finds_the_honest_engine_and_not_the_wrong_one(tmp_path, notes):
    torch.manual_seed(0)
    image = torch.randn(1, 4, 48, 48)
    graph, constants = exported(Plain17(), image)
    graph_data.save(tmp_path / "data.pt", {**constants, **dict(zip(graph.variables, [image], strict=True))})
    captured = Captured(graph=graph, data=tmp_path / "data.pt", name="pool")
    (tmp_path / "bank").mkdir()
    bank = Bank.open(tmp_path / "bank")
    options = TuneOptions(job_type=1, screening=QUICK, confirmation=QUICK, limits=Limits(time_s=60))
    with sharing_builds(), Worker([Provider()]) as worker:
        outcome = tune_graph(
            captured, bank=bank, machine=ONE_THREAD, options=options, measures=Measurer(options, worker),
            engines=(Eager(), Wrong(), Separable()), space=Space(can_cut=False),
        )  # fmt: skip
    bank.close()
    assert (outcome.action, outcome.plan.regions[0].engine) == ("add", "separable")
    assert {one.outcome.status for one in outcome.attempts if one.plan.regions[0].engine == "wrong"} == {"disagrees"}
    assert outcome.gain.ratio_low > 1.02
