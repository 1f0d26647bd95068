"""What a search for a graph's plan finds, remembers and gives up, on scripted measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from plan_models import Centred, Convolutions, Shared, exported
from tune_builders import MACHINE

from jumar.tune.bank.store import Bank
from jumar.tune.engines.base import Engine
from jumar.tune.graph import Graph
from jumar.tune.graph.capture import data as graph_data
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.job.graphs import SubgraphJob
from jumar.tune.measure.measuring import OutOfBudget
from jumar.tune.measure.options import Space, TuneOptions
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.errors import BankError
from jumar.tune.model.gate import gain_of
from jumar.tune.model.task import Policy
from jumar.tune.plan import Plan, Region
from jumar.tune.providers.operators import settings_of
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.precision.outcome import PrecisionOutcome
from jumar.tune.search.subgraph.tune import tune_graph


class Scripted(Engine):
    """An engine by name only."""

    def __init__(self, name: str, count: int = 1, version: str = "1", refuses: str = "") -> None:
        self.name = name
        self._count, self._version, self._refuses = count, version, refuses

    def version(self):
        return self._version

    def unsupported(self, graph):
        return self._refuses

    def settings(self, graph, machine, precision="fp32"):
        return [{"number": number} if number else {} for number in range(self._count)]

    def build(self, site, settings):
        raise NotImplementedError

    load = build


EAGER, INDUCTOR, FAST, SLOW = Scripted("eager"), Scripted("inductor"), Scripted("fast", 3), Scripted("slow", 3)
ENGINES = (EAGER, INDUCTOR, FAST, SLOW)


def scripted(before: float, after: float, unit_us: float) -> Outcome:
    gain = gain_of([before * unit_us] * 20, [after * unit_us] * 20)
    return Outcome(status="measured", phase="measure", gain=gain, worst_error=0.0, allowed_error=1e-6)


def spread(ratios: list[float]) -> Outcome:
    gain = gain_of([100.0 * ratio for ratio in ratios], [100.0] * len(ratios))
    return Outcome(status="measured", phase="measure", gain=gain, worst_error=0.0, allowed_error=1e-6)


@dataclass
class Clock:
    """Answers trials by how long each plan takes, in units of eager's time."""

    time_of: object
    budget: int = 10**6
    seconds: float = 0.0
    trial_s: float = 1.0
    asked: list[str] = field(default_factory=list)
    work: list[object] = field(default_factory=list)
    efforts: list[object] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    deserved: list[float] = field(default_factory=list)
    takes: dict[str, list[int]] = field(default_factory=dict)
    duels: list[tuple[str, str, int]] = field(default_factory=list)

    def prepare(self, trials, reserve_s=0.0, limit_s=None, full_s=None):
        pass

    def screen(self, trial, reserve_s=0.0, limit_s=None, full_s=None):
        self.limits.append(limit_s)
        self.deserved.append(full_s)
        if len([one for one in self.asked if one.startswith("screen")]) >= self.budget:
            raise OutOfBudget("--trials")
        return self._answer("screen", trial)

    def confirm(self, trial, limit_s=None):
        return self._answer("confirm", trial)

    def elapsed_s(self):
        return self.seconds

    def _answer(self, role, trial):
        self.seconds += self.trial_s
        plans = [Plan.of(stack[0]) if stack else None for stack in (trial.incumbent, trial.candidate)]
        self.asked.append(f"{role} {plans[1]} against {plans[0] or 'eager'}")
        self.work.append(trial.task)
        if role == "screen" and plans[0] is None:
            self.takes.setdefault(str(plans[1]), []).append(trial.take)
        kept = [plan is not None and plan.memory == "keep" for plan in plans]
        self.efforts.append((trial.effort.settling_calls, kept[0] != kept[1], plans[0] is None))
        if role == "screen" and plans[0] is not None and kept[0] == kept[1]:
            role = "duel"
            self.duels.append((str(plans[1]), str(plans[0]), trial.take))
        before = self._time(plans[0], trial.task, "incumbent")
        after = self._time(plans[1], trial.task, role)
        return after if isinstance(after, Outcome) else scripted(before, after, 10.0 * len(trial.task.nodes))

    def _time(self, plan, task, role):
        if plan is None:
            return 1.0
        return self.time_of(plan, task, role)


def by_engine(**times):
    """Times of whole plans by engine; threads, batch and memory as factors by name."""

    def time_of(plan: Plan, task: Graph, role: str):
        found = times.get(plan.regions[0].engine, 1.0)
        if isinstance(found, Outcome):
            return found
        if plan.batch:
            found *= times.get("_batch", 1.2)
        if plan.num_threads is not None:
            found *= times.get("_threads", 1.2)
        if plan.memory == "keep":
            found *= times.get("_memory", 1.1)
        return found

    return time_of


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    return capture(tmp_path_factory.mktemp("data"), Convolutions(), torch.randn(4, 3, 8, 8))


def capture(folder: Path, model, example) -> Captured:
    graph, constants = exported(model, example)
    path = folder / "data.pt"
    graph_data.save(path, {**constants, **dict(zip(graph.variables, [example], strict=True))})
    return Captured(graph=graph, data=path, name="net")


@pytest.fixture
def bank(tmp_path):
    opened = Bank.open(tmp_path)
    yield opened
    opened.close()


def run(captured, bank, time_of, engines=ENGINES, *, space=None, clock=None, deadline_s=None, **options):
    clock = clock or Clock(time_of)
    outcome = tune_graph(
        captured, bank=bank, machine=MACHINE, options=TuneOptions(job_type=1, **options), measures=clock,
        engines=engines, space=space or Space(can_cut=False), deadline_s=deadline_s,
    )  # fmt: skip
    return outcome, clock


def test_the_fastest_engine_is_chosen_confirmed_twice_and_kept(captured, bank):
    outcome, clock = run(captured, bank, by_engine(inductor=0.9, fast=0.5, slow=2.0))
    assert (outcome.action, str(outcome.plan)) == ("add", "fast")
    assert str(outcome.baseline) == "inductor"
    assert outcome.gain.ratio == pytest.approx(1.8, rel=0.01)
    assert [one for one in clock.asked if one.startswith("confirm")] == ["confirm fast against inductor"] * 2
    again, clock = run(captured, bank, by_engine())
    assert (again.action, again.from_bank, str(again.plan), clock.asked) == ("reserved", True, "fast", [])
    assert (outcome.instead_of, again.instead_of) == ("inductor", "the faster default")


def test_the_baseline_is_eager_where_the_compiler_is_slower(captured, bank):
    outcome, _ = run(captured, bank, by_engine(inductor=1.3, fast=0.5, slow=2.0))
    assert outcome.baseline is None
    assert outcome.gain.ratio == pytest.approx(2.0, rel=0.01)


def test_a_compiler_that_has_no_time_is_named(captured, bank):
    lost = Outcome(status="timeout", phase="candidate", detail="it ran past its limit of 120 s")
    outcome, _ = run(captured, bank, by_engine(inductor=lost, fast=0.5))
    assert outcome.baseline is None
    assert outcome.notes == [
        "Plans were compared with eager only: inductor has no time (it ran past its limit of 120 s)."
    ]


def test_nothing_faster_is_remembered_and_not_tuned_again(captured, bank):
    outcome, _ = run(captured, bank, by_engine(inductor=0.9, fast=0.95, slow=2.0))
    assert (outcome.action, outcome.plan, outcome.failure) == ("unsatisfied", None, "")
    again, clock = run(captured, bank, by_engine())
    assert (again.action, again.from_bank, clock.asked) == ("unsatisfied", True, [])


def test_another_version_of_an_engine_is_tried_again(captured, bank):
    run(captured, bank, by_engine(fast=0.5))
    newer = (EAGER, INDUCTOR, Scripted("fast", 3, version="2"), SLOW)
    outcome, _ = run(captured, bank, by_engine(fast=0.4), newer)
    assert (outcome.action, outcome.plan.regions[0].version) == ("update", "2")
    assert "measured with fast 1, and here is 2" in outcome.notes[0]


def test_a_plan_of_another_version_that_is_not_replaced_is_not_said_to_be_the_graphs(captured, bank):
    run(captured, bank, by_engine(fast=0.5))
    newer = (EAGER, INDUCTOR, Scripted("fast", 3, version="2"), SLOW)
    outcome, _ = run(captured, bank, by_engine(fast=0.4), newer, deadline_s=0.0)
    assert (outcome.action, outcome.plan, outcome.gain) == ("unsatisfied", None, None)
    assert outcome.is_open
    outcome, _ = run(captured, bank, by_engine(fast=1.0), newer)
    assert (outcome.action, outcome.plan, outcome.is_open) == ("unsatisfied", None, False)
    assert "measured with fast 1, and here is 2" in outcome.notes[0]
    outcome, clock = run(captured, bank, by_engine(), newer)
    assert (outcome.action, outcome.from_bank, clock.asked) == ("unsatisfied", True, [])


def test_a_bank_that_cannot_be_written_is_said_before_anything_is_measured(captured, bank, monkeypatch):
    def refuse(self):
        raise BankError("the bank cannot be used")

    run(captured, bank, by_engine(fast=0.5))
    monkeypatch.setattr(Bank, "check_writable", refuse)
    assert run(captured, bank, by_engine())[0].from_bank
    clock = Clock(by_engine(fast=0.5))
    with pytest.raises(BankError):
        run(captured, bank, None, clock=clock, repeat=True)
    assert clock.asked == []


def test_a_plan_whose_operators_policies_do_not_fit_is_measured_as_if_it_were_not_there(captured, bank):
    gone = settings_of({"a task": (Policy(kind="Impl", provider="gone"),)})
    operators = Scripted("operators")
    plan = Plan(regions=(Region(nodes=(), engine="operators", settings=gone, version=operators.version()),))
    bank.accept(
        captured.graph, MACHINE, plan.policy(), incumbent=(), gain=gain_of([2.0] * 20, [1.0] * 20), min_gain=0.02,
        tried=[],
    )  # fmt: skip
    outcome, _ = run(captured, bank, by_engine(fast=0.5), (*ENGINES, operators))
    assert outcome.notes[0].endswith("do not fit: provider gone is absent here and needed in the bank.")
    assert (outcome.action, str(outcome.plan)) == ("update", "fast")
    assert bank.slots(captured.graph, MACHINE)["Subgraph"].base == ()


def test_a_plan_that_stays_keeps_what_it_was_measured_over(captured, bank):
    run(captured, bank, by_engine(fast=0.5))
    outcome, _ = run(captured, bank, by_engine(fast=0.5), repeat=True)
    assert (outcome.action, outcome.from_bank) == ("reserved", False)
    assert outcome.instead_of == "the faster default"
    assert bank.slots(captured.graph, MACHINE)["Subgraph"].base == ()


def test_a_plan_from_the_bank_that_replaced_another_says_what_its_gain_is_against(captured, bank):
    run(captured, bank, by_engine(fast=0.5))
    outcome, _ = run(captured, bank, by_engine(fast=0.5, slow=0.2), repeat=True)
    assert (outcome.action, str(outcome.plan), outcome.instead_of) == ("update", "slow", "fast")
    kept, _ = run(captured, bank, by_engine())
    assert (kept.action, kept.instead_of) == ("reserved", "fast")


def test_a_variant_that_is_faster_is_found(captured, bank):
    outcome, _ = run(captured, bank, by_engine(fast=0.8, _batch=0.5))
    assert outcome.plan.batch
    outcome, _ = run(captured, bank, by_engine(fast=0.8, _batch=0.4, _threads=0.5), repeat=True)
    assert (outcome.action, outcome.plan.num_threads, bool(outcome.plan.batch)) == ("update", 1, True)


def test_kept_memory_is_tried_for_graphs_of_large_values_in_samples_of_several_calls(tmp_path, bank):
    class Large(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1) + 1

    clock = Clock(by_engine(eager=1.0, fast=0.9, _memory=0.5))
    outcome, _ = run(capture(tmp_path, Large(), torch.randn(2, 1 << 21)), bank, None, clock=clock)
    assert outcome.plan.memory == "keep"
    assert {calls for calls, is_of_both, _ in clock.efforts if is_of_both} == {1}
    assert {calls for calls, is_of_both, _ in clock.efforts if not is_of_both} == {0}
    assert not any(is_raw for _, is_of_both, is_raw in clock.efforts if is_of_both), "eager gives memory back first"


def test_kept_memory_is_tried_for_every_engine_that_is_quick_to_build(tmp_path, bank):
    class Large(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1) + 1

    clock = Clock(by_engine(eager=1.0, fast=0.4, slow=0.9, _memory=0.1))
    run(capture(tmp_path, Large(), torch.randn(2, 1 << 21)), bank, None, clock=clock)
    kept = [one.split(" against")[0] for one in clock.asked if "memory keep against" in one and "screen" in one]
    assert {"screen fast, memory keep", "screen slow, memory keep", "screen eager, memory keep"} <= set(kept)


def test_a_batch_that_does_not_come_apart_is_not_measured(tmp_path, bank):
    class Sum(torch.nn.Module):
        def forward(self, x):
            return x.sum(0)

    outcome, clock = run(capture(tmp_path, Sum(), torch.randn(4, 5)), bank, by_engine(fast=0.5))
    assert not any("batch" in one for one in clock.asked)
    assert "does not carry the batch" in outcome.not_cut["2+2"]


def test_an_engine_far_behind_gets_no_further_settings(captured, bank):
    outcome, clock = run(captured, bank, by_engine(fast=0.5, slow=3.0))
    assert not any("slow number" in one for one in clock.asked)
    assert sum("far behind" in one.outcome.detail for one in outcome.attempts) == 2


def test_a_gain_that_does_not_last_is_not_accepted(captured, bank):
    def time_of(plan, task, role):
        return 1.0 if role == "confirm" else by_engine(fast=0.5, slow=0.95)(plan, task, role)

    outcome, clock = run(captured, bank, time_of)
    assert outcome.action == "unsatisfied"
    assert any(one.startswith("confirm fast") for one in clock.asked)


def test_the_time_of_the_confirmation_is_kept_back(captured, bank):
    clock = Clock(by_engine(fast=0.5, slow=0.8), trial_s=5.0)
    outcome, _ = run(captured, bank, None, clock=clock, deadline_s=40.0)
    assert (outcome.action, outcome.stopped_by) == ("add", "--time-budget")
    assert clock.seconds <= 40.0


def test_a_budget_of_trials_keeps_what_was_found(captured, bank):
    clock = Clock(by_engine(fast=0.5), budget=3)
    outcome, _ = run(captured, bank, None, clock=clock)
    assert (outcome.action, str(outcome.plan), outcome.stopped_by) == ("add", "fast", "--trials")


def test_a_search_that_was_stopped_with_a_plan_goes_on_and_comes_to_its_end(captured, bank):
    times = by_engine(fast=0.5, slow=0.9)
    first, _ = run(captured, bank, None, clock=Clock(times, budget=3))
    assert (first.action, first.stopped_by) == ("add", "--trials")
    second, clock = run(captured, bank, times)
    assert (second.action, str(second.plan), second.from_bank) == ("reserved", "fast", False)
    assert clock.asked
    third, clock = run(captured, bank, times)
    assert (third.action, str(third.plan), third.from_bank, clock.asked) == ("reserved", "fast", True, [])
    (entry,) = bank.entries()
    assert entry.gain.ratio == pytest.approx(first.gain.ratio)


def test_a_search_that_was_stopped_does_not_remember_finding_nothing(captured, bank):
    outcome, _ = run(captured, bank, None, clock=Clock(by_engine(), budget=2))
    assert (outcome.action, outcome.stopped_by) == ("unsatisfied", "--trials")
    assert bank.entries() == []


@pytest.mark.parametrize("status", ["failed", "died", "timeout", "memory", "disagrees"])
def test_a_candidate_that_comes_to_a_bad_end_costs_itself_only(captured, bank, status):
    lost = Outcome(status=status, phase="candidate", detail="so it is")
    outcome, _ = run(captured, bank, by_engine(fast=lost, slow=0.5))
    assert str(outcome.plan) == "slow"


def test_a_graph_that_cannot_be_run_fails_with_the_reason(captured, bank):
    lost = Outcome(status="task-failed", phase="task", detail="no kernel")
    outcome, _ = run(captured, bank, by_engine(inductor=lost, fast=lost))
    assert outcome.failure == "task-failed: no kernel"


def test_engines_that_refuse_are_named(captured, bank):
    outcome, _ = run(captured, bank, by_engine(), (EAGER, INDUCTOR, Scripted("fast", refuses="it has no convolution")))
    assert outcome.left_out == {"fast": "it has no convolution"}


def stitching_times(penalty: float):
    """`fast` computes blocks with convolutions in half of eager's time, `slow` the others; borders cost `penalty`."""

    def of_part(engine: str, task: Graph) -> float:
        has_convolution = any("conv" in node.operator for node in task.nodes)
        return 0.5 if (engine == "fast") == has_convolution else 1.0

    def time_of(plan: Plan, task: Graph, role: str):
        if len(plan.regions) > 1:
            return 0.5 + penalty
        whole = any("linear" in node.operator for node in task.nodes) and any(
            "conv" in node.operator for node in task.nodes
        )
        engine = plan.regions[0].engine
        if engine not in {"fast", "slow"} or plan.batch or plan.num_threads or plan.memory == "keep":
            return 1.0
        return {"fast": 0.7, "slow": 0.9}[engine] if whole else of_part(engine, task)

    return time_of


def test_a_stitched_plan_that_is_faster_from_end_to_end_is_chosen(captured, bank):
    outcome, _ = run(captured, bank, stitching_times(0.0), space=Space())
    assert outcome.cutting.blocks
    assert outcome.action == "add"
    assert len(outcome.plan.regions) > 1
    nodes = [value for region in outcome.plan.regions for value in region.nodes]
    assert nodes == list(range(len(captured.graph.inputs), len(captured.graph.inputs) + len(captured.graph.nodes)))


def test_a_stitched_plan_that_loses_at_its_borders_is_measured_and_left(captured, bank):
    outcome, _ = run(captured, bank, stitching_times(0.4), space=Space())
    assert str(outcome.plan) == "fast"
    assert outcome.cutting.stitched[0].measured_us > outcome.cutting.stitched[0].promised_us
    assert outcome.cutting.reason


def test_equal_blocks_are_measured_once(tmp_path, bank):
    class Tower(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(6))

        def forward(self, x):
            for block in self.blocks:
                x = x + torch.relu(block(x))
            return x

    captured = capture(tmp_path, Tower(), torch.randn(3, 16))
    outcome, clock = run(captured, bank, by_engine(fast=0.5, slow=0.9), space=Space())
    assert len(outcome.cutting.blocks) == 6
    parts = [work for work in clock.work if len(work.nodes) < len(captured.graph.nodes)]
    assert len({work.key for work in parts}) == 1


def test_rows_that_depend_on_each_other_are_found_by_shapes_or_by_the_gate(tmp_path, bank):
    _, clock = run(capture(tmp_path, Shared(), torch.randn(4, 5)), bank, by_engine(fast=0.5))
    assert any("batch" in one for one in clock.asked), "shapes do not show it; building the piece compares values"
    _, clock = run(capture(tmp_path, Centred(), torch.randn(4, 5)), bank, by_engine(fast=0.5))
    assert not any("batch" in one for one in clock.asked), "the mean of all rows has none"


class Compiling(Scripted):
    is_slow_to_build = True


ORDERED = (EAGER, Compiling("inductor", 2), FAST, SLOW)


def plans_asked(clock: Clock) -> list[str]:
    return [one.removeprefix("screen ").removesuffix(" against eager") for one in clock.asked if "screen" in one]


def test_what_is_quick_to_build_is_tried_before_what_compiles(captured, bank):
    outcome, clock = run(captured, bank, by_engine(inductor=0.6, fast=0.5, slow=0.9), ORDERED)
    whole = [one for one in plans_asked(clock) if "," not in one]
    assert whole[:7] == ["fast", "slow", "fast number=1", "slow number=1", "fast number=2", "slow number=2", "inductor"]
    assert str(outcome.baseline) == "inductor"


def test_a_compiler_that_is_not_near_gets_no_further_settings(captured, bank):
    _, near = run(captured, bank, by_engine(inductor=0.6, fast=0.5, slow=0.9), ORDERED)
    assert "inductor number=1" in plans_asked(near)
    _, far = run(captured, bank, by_engine(inductor=0.7, fast=0.4, slow=0.9), ORDERED, repeat=True)
    assert "inductor number=1" not in plans_asked(far)


def test_a_budget_that_ends_before_the_compiler_says_what_plans_were_compared_with(captured, bank):
    outcome, _ = run(captured, bank, None, ORDERED, clock=Clock(by_engine(fast=0.5), budget=4))
    assert (outcome.action, str(outcome.plan), outcome.baseline) == ("add", "fast", None)
    assert outcome.notes == [
        "Plans were compared with eager only: --trials ended the search before inductor had its turn."
    ]


def test_an_engine_that_is_slow_for_the_batch_is_tried_row_by_row(captured, bank):
    outcome, clock = run(captured, bank, by_engine(fast=0.5, slow=1.5, _batch=0.2))
    assert "slow, batch 1+1+1+1" in plans_asked(clock), "three times slower than the leader, and tried all the same"
    assert "slow, batch 1+1+1+1, 2 at once, 1 threads" in plans_asked(clock)
    assert outcome.plan.batch


def test_what_other_programs_disturbed_is_looked_at_again_and_counts(captured, bank):
    seen: dict[str, int] = {}
    busy = Outcome(status="busy", phase="measure", detail="3 of 40 pairs")

    def time_of(plan, task, role):
        seen[f"{role} {plan}"] = seen.get(f"{role} {plan}", 0) + 1
        is_first = seen[f"{role} {plan}"] == 1
        if str(plan) == "fast":
            return busy if is_first else 0.5
        return by_engine(fast=0.7, slow=0.9)(plan, task, role)

    outcome, clock = run(captured, bank, time_of)
    assert (outcome.action, str(outcome.plan), outcome.is_open) == ("add", "fast", False)
    assert plans_asked(clock).count("fast") == 2
    assert sum(one.startswith("confirm") for one in clock.asked) == 3, "and so is a confirmation"


def test_a_wide_interval_that_leaves_open_who_is_fastest_is_measured_again(captured, bank):
    seen: list[str] = []

    def time_of(plan, task, role):
        if str(plan) != "fast" or role != "screen":
            return by_engine(fast=0.5, slow=0.8)(plan, task, role)
        seen.append(str(plan))
        # The first look says 1.0 to 2.6 times as fast, which is about what `slow` is.
        return spread([1.0, 1.02, 1.05, 1.1, 2.5, 2.6, 2.6]) if len(seen) == 1 else 0.5

    outcome, clock = run(captured, bank, time_of)
    assert (outcome.action, str(outcome.plan)) == ("add", "fast")
    assert len(set(clock.takes["fast"])) == len(clock.takes["fast"]) == 2, "what was answered is not asked again"


TWO = (EAGER, INDUCTOR, Scripted("fast", 1), Scripted("slow", 1))


def test_who_may_be_the_fastest_meets_the_leader(captured, bank):
    def time_of(plan, task, role):
        if str(plan) == "fast" and role == "screen":
            return spread([1.0, 1.1, 1.2, 1.3, 1.4, 2.5, 2.6])  # by a median of 1.3 no match for `slow`
        return by_engine(fast=0.5, slow=0.6)(plan, task, role)

    outcome, clock = run(captured, bank, time_of, TWO)
    assert (outcome.action, str(outcome.plan)) == ("add", "fast")
    assert ("fast", "slow") in [one[:2] for one in clock.duels]


@pytest.mark.parametrize(("middle", "winner"), [(1.1, "slow"), (1.0, "fast")])
def test_leaders_meet_again_as_long_as_it_is_open_who_is_faster(captured, bank, middle, winner):
    def time_of(plan, task, role):
        if str(plan) == "slow" and role == "duel":
            return spread([0.8, 0.9, 0.95, middle, 1.2, 1.25, 1.3])
        return by_engine(fast=0.5, slow=0.51)(plan, task, role)

    outcome, clock = run(captured, bank, time_of, TWO)
    met = [seed for plan, champion, seed in clock.duels if (plan, champion) == ("slow", "fast")]
    assert len(met) == len(set(met)) == 3
    assert str(outcome.plan) == winner


def test_equals_meet_once_and_the_first_stays(captured, bank):
    outcome, clock = run(captured, bank, by_engine(fast=0.5, slow=0.5), TWO)
    assert str(outcome.plan) == "fast"
    assert [one[:2] for one in clock.duels].count(("slow", "fast")) == 1


def test_intervals_that_stay_wide_are_given_up(captured, bank):
    wide = spread([1.0, 1.02, 1.05, 1.1, 2.5, 2.6, 2.6])
    _, clock = run(captured, bank, lambda plan, task, role: wide)
    assert max(map(plans_asked(clock).count, plans_asked(clock))) <= 3


def test_a_machine_that_is_always_busy_ends_the_search_and_concludes_nothing(captured, bank):
    busy = Outcome(status="busy", phase="measure", detail="3 of 40 pairs")
    outcome, clock = run(captured, bank, lambda plan, task, role: busy)
    assert (outcome.action, outcome.is_open, bank.entries()) == ("unsatisfied", True, [])
    assert max(map(plans_asked(clock).count, plans_asked(clock))) <= 3


def test_what_the_budget_left_too_little_time_for_is_not_remembered(captured, bank):
    late = Outcome(status="unfinished", phase="candidate", detail="9 s were not enough")
    outcome, clock = run(captured, bank, by_engine(inductor=late, fast=0.5), ORDERED)
    assert (outcome.action, outcome.stopped_by) == ("add", "--time-budget")
    assert "inductor number=1" not in plans_asked(clock), "it would take as long"
    (entry,) = bank.entries()
    assert not any("inductor" in str(Plan.of(one.policy)) for one in entry.tried)
    again, clock = run(captured, bank, by_engine(inductor=0.4, fast=0.5), ORDERED)
    assert (again.action, again.plan.regions[0].engine) == ("update", "inductor")


def test_one_candidate_does_not_get_all_the_time_that_is_left(captured, bank):
    clock = Clock(by_engine(fast=0.5), trial_s=1.0)
    run(captured, bank, None, ORDERED, clock=clock, deadline_s=60.0)
    assert max(clock.limits) < 60.0 * 0.8
    assert set(clock.deserved) == {120.0, 600.0}, "what compiles is not judged by a share of its time"
    clock = Clock(by_engine(fast=0.5), trial_s=1.0)
    run(captured, bank, None, ORDERED, clock=clock, repeat=True)
    assert set(clock.limits) == {120.0, 600.0}, "without a budget: the usual limit, more for what compiles"


def test_a_share_that_ends_before_the_graph_itself_has_run_does_not_fail_the_graph(captured, bank):
    late = Outcome(status="unfinished", phase="task", detail="1 s was not enough")
    outcome, _ = run(captured, bank, by_engine(inductor=late, fast=late, slow=late))
    assert (outcome.failure, outcome.stopped_by, bank.entries()) == ("", "--time-budget", [])


def test_a_search_for_precision_that_is_cut_short_leaves_the_job_open(captured, monkeypatch):
    result = TuneResult(recording="net", recorded_device="cpu", machine=MACHINE, min_gain=0.02, job_type=1)

    class CutShort:
        def first_deadline_s(self, graph, deadline_s):
            return deadline_s

        def tune(self, captured, outcome, deadline_s, step):
            result.precisions.append(PrecisionOutcome(name="net", budget=0.01, stopped_by="--trials"))

    monkeypatch.setattr("jumar.tune.job.graphs.tune_graph", lambda captured, **fields: fields["outcome"])
    job = SubgraphJob(
        bank=None, machine=MACHINE, options=TuneOptions(job_type=1), measurer=SimpleNamespace(name=""), space=Space(),
        result=result, on_progress=None, write=lambda: None, precision=CutShort(),
    )  # fmt: skip
    with pytest.raises(OutOfBudget, match="--trials"):
        job.tune([captured])
