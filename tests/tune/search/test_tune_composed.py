"""A model with the policies of its operators: applied as one function, measured as a whole, written where it pays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lowering_models import Residual
from tune_builders import MACHINE, gain, measured

from jumar.tune import Bank, TuneOptions
from jumar.tune.engines.base import Site
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.graph.capture.data import load
from jumar.tune.job.result_file import ResultFile
from jumar.tune.measure.measuring import OutOfBudget
from jumar.tune.measure.worker.messages import Outcome, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Policy, Stack
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.plan import KIND
from jumar.tune.providers.formats import ChannelsLast
from jumar.tune.providers.operators import Operators, settings_of
from jumar.tune.providers.pytorch import Threads
from jumar.tune.search.composed import Composer
from jumar.tune.search.outcome import ComposedOutcome, TuneResult, together_us
from jumar.tune.search.subgraph.trials import SLOW
from jumar.tune.search.tasks.source import extract_graphs

ONE = replace(MACHINE, num_threads=1)


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    torch.manual_seed(0)
    return graph_of_module(Residual().eval(), (torch.randn(2, 3, 8, 8),), folder=tmp_path, name="net")


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    (tmp_path / "bank").mkdir()
    return Bank.open(tmp_path / "bank")


class Measurer:
    """Answers trials of a whole graph by a function of what they are against."""

    def __init__(self, answer: Callable[[Trial], Outcome]) -> None:
        self.name = ""
        self.trials: list[Trial] = []
        self.limits_s: list[float | None] = []
        self._answer = answer

    def confirm(self, trial: Trial, limit_s: float | None = None) -> Outcome:
        self.trials.append(trial)
        self.limits_s.append(limit_s)
        return self._answer(trial)


def layouts(captured: Captured) -> dict[str, Stack]:
    """Return a policy for each convolution of the graph."""
    tasks = [use.task for use in extract_graphs([captured]).tasks]
    return {task.key: (ChannelsLast().policy(),) for task in tasks if task.base == "conv2d"}


def with_policies(bank: Bank, captured: Captured) -> int:
    stacks = layouts(captured)
    for use in extract_graphs([captured]).tasks:
        for policy in stacks.get(use.task.key, ()):
            bank.accept(use.task, ONE, policy, incumbent=(), gain=gain(1.2), min_gain=0.02, tried=[])
    return len(stacks)


def composer(bank: Bank, answer: Callable[[Trial], Outcome], machine: Machine = ONE) -> tuple[Composer, Measurer]:
    measurer = Measurer(answer)
    return Composer(bank=bank, machine=machine, options=TuneOptions(), measurer=measurer), measurer  # type: ignore[arg-type]


def is_against_eager(trial: Trial) -> bool:
    return trial.incumbent == ()


def test_every_operator_is_computed_under_its_own_policies(captured: Captured, tmp_path: Path) -> None:
    stacks = {key: (*stack, Threads().policy(num_threads=1)) for key, stack in layouts(captured).items()}
    graph, values = captured.graph, load(captured.data)
    constants = {place: values[place] for place in graph.constants}
    x = values[graph.variables[0]]
    site = Site(graph=graph, constants=constants, example=[x], folder=tmp_path)
    seen: list[bool] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            if "convolution" in str(function):
                seen.append(arguments[0].is_contiguous(memory_format=torch.channels_last))
            return function(*arguments, **(keywords or {}))

    with torch.no_grad():
        (plain,) = Operators().build(site, {})(x)
        settings = json.loads(json.dumps(settings_of(stacks)))
        tuned = Operators().build(site, settings)
        with Watch():
            (made,) = tuned(x)
    assert seen == [True, True]
    assert made.stride() == plain.stride()
    assert torch.allclose(made, plain, atol=1e-6)


def test_a_policy_that_cannot_be_applied_ends_the_candidate_in_one_sentence(captured: Captured, tmp_path: Path) -> None:
    graph, values = captured.graph, load(captured.data)
    stacks = {key: (Policy(kind="Impl", provider="no_such_provider"),) for key in layouts(captured)}
    constants = {place: values[place] for place in graph.constants}
    site = Site(graph=graph, constants=constants, example=[], folder=tmp_path)
    with pytest.raises(TuneError, match="no_such_provider"):
        Operators().build(site, settings_of(stacks))


def test_a_model_that_is_faster_as_a_whole_gets_the_plan(captured: Captured, bank: Bank) -> None:
    num = with_policies(bank, captured)
    made, measurer = composer(bank, lambda _: measured(1.5))
    outcome = made.compose(captured)
    assert (outcome.num_policies, outcome.is_faster, outcome.is_written) == (num, True, True)
    entry = bank.slots(captured.graph, ONE)[KIND]
    assert entry.policy is not None
    assert Plan.of(entry.policy).regions[0].engine == "operators"
    assert is_against_eager(measurer.trials[0])
    again = made.compose(captured)
    assert again.is_written
    assert "The bank has it" in again.told


def test_what_cannot_be_used_here_is_left_out_and_stands_in_no_ones_way(captured: Captured, bank: Bank) -> None:
    num = with_policies(bank, captured)
    gone = Policy(kind="Impl", provider="gone")
    key, stack = next(iter(layouts(captured).items()))
    task = next(use.task for use in extract_graphs([captured]).tasks if use.task.key == key)
    bank.accept(task, ONE, gone, incumbent=stack, gain=gain(1.2), min_gain=0.02, tried=[])
    old = Plan(regions=(Region(nodes=(), engine="eager", version="0.0.1"),)).policy()
    bank.accept(captured.graph, ONE, old, incumbent=(), gain=gain(1.2), min_gain=0.02, tried=[])
    made, measurer = composer(bank, lambda _: measured(1.5))
    outcome = made.compose(captured)
    assert (outcome.num_policies, outcome.is_written) == (num, True)
    assert all(old not in trial.incumbent for trial in measurer.trials)
    assert "gone" not in json.dumps([policy.to_json() for trial in measurer.trials for policy in trial.candidate])


def test_a_whole_model_has_as_long_as_the_last_measurement_of_a_graph(captured: Captured, bank: Bank) -> None:
    with_policies(bank, captured)
    made, measurer = composer(bank, lambda _: measured(1.5))
    made.compose(captured)
    assert set(measurer.limits_s) == {SLOW * TuneOptions().limits.time_s}


def test_what_is_slower_than_the_compiler_is_no_plan(captured: Captured, bank: Bank) -> None:
    with_policies(bank, captured)
    machine = replace(ONE, compiler="g++")
    for use in extract_graphs([captured]).tasks:
        bank.accept(use.task, machine, ChannelsLast().policy(), incumbent=(), gain=gain(1.2), min_gain=0.02, tried=[])
    made, measurer = composer(bank, lambda trial: measured(1.5 if is_against_eager(trial) else 0.7), machine)
    outcome = made.compose(captured)
    assert (outcome.is_faster, outcome.is_written) == (True, False)
    assert "not faster than inductor" in outcome.told
    assert len(measurer.trials) == 2
    assert KIND not in bank.slots(captured.graph, machine)


@pytest.mark.parametrize("found", [measured(1.0), Outcome(status="failed", detail="it raised")])
def test_a_model_that_is_not_faster_is_left_as_it_was(captured: Captured, bank: Bank, found: Outcome) -> None:
    with_policies(bank, captured)
    outcome = composer(bank, lambda _: found)[0].compose(captured)
    assert not outcome.is_faster
    assert "left as it was" in outcome.told
    times = outcome.times_us()
    assert times is None or times[0] == times[1]


def test_without_time_the_model_is_not_measured_and_it_is_said(captured: Captured, bank: Bank) -> None:
    def end(trial: Trial) -> Outcome:
        raise OutOfBudget("--time-budget")

    assert "--time-budget was used up" in composer(bank, end)[0].compose(captured).told


def test_a_model_whose_operators_have_no_policies_is_not_called_slower(captured: Captured, bank: Bank) -> None:
    outcome = composer(bank, lambda _: measured(0.3))[0].compose(captured)
    assert outcome.told == "No operator of net has a policy, so that it is left as it was."
    times = outcome.times_us()
    assert times is not None
    assert times[0] == times[1]


def test_a_model_without_an_operator_that_can_be_tuned_is_not_measured(tmp_path: Path, bank: Bank) -> None:
    idle = graph_of_module(torch.nn.ReLU(), (torch.randn(2, 3),), folder=tmp_path, name="idle")
    made, measurer = composer(bank, lambda _: measured(1.5))
    assert made.compose(idle) == ComposedOutcome(name="idle", num_policies=0)
    assert not measurer.trials


def opat_of(outcomes: Sequence[ComposedOutcome], folder: Path) -> dict[str, object]:
    result = TuneResult(
        recording="net.onnx", recorded_device="cpu", machine=ONE, min_gain=0.02, is_offline=True, num_tasks=1,
        composed=list(outcomes),
    )  # fmt: skip
    file = ResultFile(folder)
    file.write(result, ended=True)
    part: dict[str, object] = json.loads(file.path.read_text("utf-8"))[1]["OPAT"]
    return part


def test_the_result_file_has_the_model_before_and_after(tmp_path: Path) -> None:
    faster = ComposedOutcome(name="a", num_policies=2, gain=gain(1.25), is_faster=True)
    part = opat_of([faster], tmp_path)
    before, after = part["model_baseline_performance(ms)"], part["model_result_performance(ms)"]
    assert isinstance(before, float)
    assert isinstance(after, float)
    assert part["model_performance_improvement"] == f"{int((before - after) / after * 1e4) / 100:.2f}%"
    same = opat_of([replace(faster, is_faster=False)], tmp_path)
    assert same["model_baseline_performance(ms)"] == same["model_result_performance(ms)"]
    assert not any(name.startswith("model_") for name in opat_of([replace(faster, gain=None)], tmp_path))
    assert together_us([]) is None
