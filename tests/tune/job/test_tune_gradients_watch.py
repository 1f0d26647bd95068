"""The watch of job type 4: ready times from a training's own steps, and why a training cannot be split."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from jumar.tune.job.gradients import watch
from jumar.tune.job.gradients.duel import compare_gradients
from jumar.tune.job.gradients.layout import ends_of, is_default, own_ends, own_settings, settings_of
from jumar.tune.job.gradients.messages import PROGRESS, STEPS, Told
from jumar.tune.job.gradients.rank import Reducers, gradients_of, rate_class, task_of
from jumar.tune.job.gradients.refusal import refusal
from jumar.tune.job.gradients.watch import WARM_STEPS, Watched, install_with
from jumar.tune.search.gradients.model import Link
from jumar.tune.search.gradients.splits import MIB, sizes_of


class Ended(Exception):
    """The training was ended by the watch."""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def watched_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Watched]]:
    """Train a model under the watch; return what `finish` is called with."""
    monkeypatch.setattr(watch, "has_peers", lambda: True)
    undo: list[Callable[[], None]] = []

    def train(model: nn.Module, step: Callable[[nn.Module], torch.Tensor], steps: int = 2 * STEPS) -> Watched:
        found: list[Watched] = []

        def finish(one: Watched, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
            found.append(one)
            raise Ended

        undo.append(install_with(finish, Told(tmp_path, is_first=True)))
        with contextlib.suppress(Ended):
            for _ in range(steps):
                step(model).backward()
        return found[0]

    original = nn.Module.__call__
    yield train
    for restore in undo:
        restore()
    assert nn.Module.__call__ is original


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def squared(model: nn.Module) -> torch.Tensor:
    loss: torch.Tensor = model(torch.ones(2, 8)).square().sum()
    return loss


def test_gradients_are_ready_from_the_last_layer_to_the_first(watched_of: Callable[..., Watched]) -> None:
    found = watched_of(network(), squared)
    times = found.ready_ns()
    assert set(times) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert 0 < max(times["2.weight"], times["2.bias"]) < min(times["0.weight"], times["0.bias"])
    assert found.num_steps == STEPS > WARM_STEPS
    assert refusal(found) == ""


def test_the_number_of_backward_passes_is_told(watched_of: Callable[..., Watched], tmp_path: Path) -> None:
    watched_of(network(), squared)
    assert json.loads((tmp_path / PROGRESS).read_text()) == {"steps": STEPS}


def test_a_smaller_model_beside_it_is_left_alone(watched_of: Callable[..., Watched]) -> None:
    small = nn.Linear(8, 8)
    large = network()
    found = watched_of(large, lambda model: squared(model) + small(torch.ones(1, 8)).sum())
    assert found.module is large


def test_evaluation_is_no_step(watched_of: Callable[..., Watched]) -> None:
    def step(model: nn.Module) -> torch.Tensor:
        with torch.no_grad():
            model(torch.ones(2, 8))
        return squared(model)

    assert watched_of(network(), step).num_steps == STEPS


def test_under_ddp_gradients_are_not_reduced_while_they_are_watched(
    group: None, watched_of: Callable[..., Watched]
) -> None:
    found = watched_of(DistributedDataParallel(network()), squared)
    assert found.ddp is not None
    assert not found.ddp.require_backward_grad_sync
    assert set(found.ready_ns()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_parameters_without_gradient_are_named(watched_of: Callable[..., Watched]) -> None:
    model = network()
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    assert refusal(watched_of(model, squared)).startswith("unused got no gradient in some step")


def test_sparse_gradients_are_named(watched_of: Callable[..., Watched]) -> None:
    model = nn.Sequential(nn.Embedding(5, 8, sparse=True), nn.Linear(8, 2))
    found = watched_of(model, lambda one: one(torch.tensor([1, 2])).sum())
    assert refusal(found).startswith("0.weight got sparse gradients")


def test_gradients_of_two_types_are_refused(watched_of: Callable[..., Watched]) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 4), nn.Linear(8, 4).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.one(x) + self.two(x.double())
            return found

    assert "types torch.float32, torch.float64" in refusal(watched_of(Mixed(), squared))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"find_unused_parameters": True}, "keeps its buckets in the order of the parameters"),
        ({"static_graph": True}, "Tune with static_graph=False"),
    ],
)
def test_settings_of_ddp_that_cannot_be_measured_are_told(
    group: None, watched_of: Callable[..., Watched], settings: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(watched_of(DistributedDataParallel(network(), **settings), squared))


def test_a_communication_hook_is_told(group: None, watched_of: Callable[..., Watched]) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = DistributedDataParallel(network())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    assert "communication hook" in refusal(watched_of(model, squared))


def test_a_part_that_is_wrapped_by_itself_is_told(group: None, watched_of: Callable[..., Watched]) -> None:
    model = nn.Sequential(DistributedDataParallel(nn.Linear(8, 8)), nn.Linear(8, 2))
    assert "wraps parts of itself" in refusal(watched_of(model, squared))


def test_a_gradient_is_ready_when_it_is_in_the_slowest_process() -> None:
    parameters = dict(network().named_parameters())
    fast = {"0.weight": 30, "0.bias": 31, "2.weight": 10, "2.bias": 11}
    slow = {name: time + (20 if name == "2.bias" else 1) for name, time in fast.items()}
    found = gradients_of(parameters, [fast, slow])
    assert [(one.name, one.ready_ns, one.place) for one in found] == [
        ("2.weight", 11, 2), ("2.bias", 31, 3), ("0.weight", 31, 0), ("0.bias", 32, 1),
    ]  # fmt: skip
    assert [one.size_bytes for one in found] == [256, 16, 512, 64]


def test_another_batch_network_or_number_of_processes_is_another_task() -> None:
    parameters = dict(network().named_parameters())
    gradients = gradients_of(parameters, [{name: place for place, name in enumerate(parameters)}])
    later = gradients_of(parameters, [{name: -place for place, name in enumerate(parameters)}])
    two = Reducers(processes=2, hosts=1, backend="gloo", rate=1.0)
    task = task_of(gradients, two, [torch.ones(2, 8)])
    assert task.key == task_of(later, two, [torch.zeros(2, 8)]).key
    assert task.tensors["gradients"].shape == (16 * 8 + 16 + 4 * 16 + 4,)
    inputs = [[torch.ones(4, 8)], [(), {"x": torch.ones(3, 8)}]]
    changes: list[dict[str, Any]] = [{"processes": 4}, {"hosts": 2}, {"backend": "nccl"}, {"rate": 0.25}]
    others = [task_of(gradients, two, one).key for one in inputs]
    others += [task_of(gradients, replace(two, **change), [torch.ones(2, 8)]).key for change in changes]
    assert len({task.key, *others}) == 1 + len(inputs) + len(changes)


def test_a_network_that_is_measured_twice_is_one_class() -> None:
    rates = [rate_class(Link(latency_s=0.0, bandwidth=rate)) for rate in (0.76e9, 1.36e9, 0.217e9, 12.5e9)]
    assert rates == [1.0, 1.0, 0.25, 16.0]


@pytest.mark.parametrize(
    "settings",
    [{}, {"bucket_cap_mb": 2}, {"bucket_cap_mb": 25}, {"bucket_cap_mb_list": [1, 3]}, {"bucket_cap_mb_list": [2, 25]}],
)
def test_the_scripts_own_split_is_what_ddp_cuts(group: None, settings: dict[str, Any]) -> None:
    if settings.get("bucket_cap_mb_list") and not hasattr(DistributedDataParallel(network()), "bucket_bytes_cap_list"):
        pytest.skip("torch before 2.13 has one cap for all buckets")
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
    ddp = DistributedDataParallel(model, **settings)
    ready: list[str] = []
    handles = [
        one.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
        for name, one in model.named_parameters()
    ]
    for _ in range(4):
        ready.clear()
        ddp(torch.ones(1, 512)).sum().backward()
    for handle in handles:
        handle.remove()
    times = {name: place for place, name in enumerate(ready)}
    gradients = gradients_of(dict(model.named_parameters()), [times])
    data = ddp._get_ddp_logging_data()  # type: ignore[no-untyped-call]
    buckets = [int(size) for size in data["rebuilt_bucket_sizes"].split(",")]
    assert sizes_of(gradients, own_ends(ddp, gradients)) == buckets
    assert own_settings(ddp) == settings
    assert is_default(ddp) == (settings == {})


def test_a_split_survives_its_settings() -> None:
    parameters = dict(nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))).named_parameters())
    gradients = gradients_of(parameters, [{name: -place for place, name in enumerate(parameters)}])
    link = Link(latency_s=1e-5, bandwidth=1e9)
    for cuts in itertools.combinations(range(11), 2):
        settings, ends = settings_of(gradients, link, [*cuts, 11])
        assert list(ends) == ends_of(settings, gradients)
        if "bucket_cap_mb_list" in settings:
            assert list(ends) == [*cuts, 11]
    assert sum(sizes_of(gradients, [11])) < MIB


class Fixed:
    """A side whose gradients are given, one list a pass."""

    def __init__(self, *passes: list[float]) -> None:
        self._passes = itertools.cycle(passes)

    def gradients(self, _args: Any, _kwargs: Any) -> dict[str, torch.Tensor]:
        return {"weight": torch.tensor(next(self._passes))}


def test_wrong_gradients_are_named_and_rounding_is_not(group: None) -> None:
    own: Any = Fixed([1.0, 2.0])
    for values, is_wrong in (([1.0, 2.0], False), ([1.0, 2.0 + 4e-7], False), ([1.0, 2.1], True)):
        new: Any = Fixed(values)
        worst, said = compare_gradients(own, new, (), {}, None)
        assert (said != "") == is_wrong
        assert worst == pytest.approx(abs(values[1] - 2.0) / 2, abs=1e-7)
    assert said.startswith("weight differs by 0.1, its greatest value is 2")


def test_a_training_that_differs_from_itself_accuses_nobody(group: None) -> None:
    own: Any = Fixed([1.0, 2.0], [1.0, 2.2], [1.0, 2.1])
    new: Any = Fixed([1.0, 2.15])
    assert compare_gradients(own, new, (), {}, None)[1] == ""


def test_a_torch_without_a_list_of_caps_is_told_one_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    def __init__(self: Any, module: nn.Module, bucket_cap_mb: float | None = None) -> None: ...

    monkeypatch.setattr(DistributedDataParallel, "__init__", __init__)
    parameters = dict(nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))).named_parameters())
    gradients = gradients_of(parameters, [{name: (12 - place) * 10_000 for place, name in enumerate(parameters)}])
    settings, ends = settings_of(gradients, Link(latency_s=1e-6, bandwidth=1e9), [3, 11])
    assert list(settings) == ["bucket_cap_mb"]
    assert list(ends) == ends_of(settings, gradients)
    assert len(ends) > 1
