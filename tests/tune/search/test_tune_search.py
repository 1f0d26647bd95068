"""The vendor's rules for add, update, reserve, hit and unsatisfied, and what a search does with bad luck."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from tune_builders import MACHINE, gain, measured, mm_task

from jumar.tune.bank.entry import Tried, stack_of
from jumar.tune.bank.store import Bank
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.worker.messages import Outcome
from jumar.tune.model.errors import BankError
from jumar.tune.model.task import KINDS, Policy, describe
from jumar.tune.providers.base import Provider
from jumar.tune.providers.engine import EngineProvider
from jumar.tune.search.operators import OutOfBudget, Search
from jumar.tune.search.outcome import TaskOutcome
from jumar.tune.search.tasks.extract import TaskUse


class Offer(Provider):
    """Offers the policies it was made with, and is called as they are."""

    kind = "Impl"

    def __init__(self, name, policies):
        self.name = name
        self._policies = policies

    def candidates(self, task, machine):
        return self._policies

    def apply(self, policy, function, example, site):
        raise NotImplementedError


class Engine:
    """An engine in its second version."""

    name = "fast"

    def unavailable(self, machine):
        return ""

    def version(self):
        return "2"


class Fast(EngineProvider):
    """Policies of that engine."""

    name, kind, engine, call_us = "fast", "Impl", Engine(), 0.0


def policy(name: str, kind: str = "Impl") -> Policy:
    return Policy(kind=kind, provider=name)


@dataclass
class Scripted:
    """Answers trials from a table: how much faster each candidate is than PyTorch's default."""

    speeds: dict[str, float]
    confirmed: dict[str, float] = field(default_factory=dict)
    """Speeds in the confirmation, where they differ."""
    trials: list[tuple[str, str, str]] = field(default_factory=list)
    budget: int = 10**6
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def measure(self, trial):
        if len(self.trials) >= self.budget:
            raise OutOfBudget("--trials")
        return self._answer("screen", trial, self.speeds)

    def confirm(self, trial, limit_s=None):
        return self._answer("confirm", trial, self.speeds | self.confirmed)

    def _answer(self, step, trial, speeds):
        self.trials.append((step, describe(trial.incumbent), describe(trial.candidate)))
        name = next(policy.provider for policy in trial.candidate if policy not in trial.incumbent)
        if name in self.outcomes:
            return self.outcomes[name]
        speed = 1.0
        for one in trial.candidate:
            speed *= speeds[one.provider]
        for one in trial.incumbent:
            speed /= speeds[one.provider]
        return measured(speed)


def offers(policies, scripted):
    """Return a provider for each name that has a speed, those that offer something in the order of their offers."""
    names = dict.fromkeys([*(one.provider for one in policies), *scripted.speeds])
    return [Offer(name, [one for one in policies if one.provider == name]) for name in names]


def run(bank, scripted, policies, providers=(), **options):
    search = Search(
        bank=bank, machine=MACHINE, options=TuneOptions(**options), providers=[*providers, *offers(policies, scripted)],
        measure=scripted.measure, confirm=scripted.confirm, on_slot=lambda task, kind: None,
    )  # fmt: skip
    outcome = TaskOutcome(use=TaskUse(task=mm_task(), name="fc/mm_OPAT_0", module_paths=["fc"]))
    search.tune(outcome)
    return outcome


def in_bank(bank) -> str:
    return describe(stack_of(list(bank.slots(mm_task(), MACHINE).values())))


@pytest.fixture
def bank(tmp_path):
    return Bank.open(tmp_path)


def test_the_best_of_the_candidates_is_confirmed_and_added(bank):
    scripted = Scripted({"a": 1.2, "b": 1.5, "c": 0.8})
    (slot,) = run(bank, scripted, [policy("a"), policy("b"), policy("c")]).slots
    assert (slot.action, slot.policy, in_bank(bank)) == ("add", policy("b"), "b")
    assert scripted.trials[-1] == ("confirm", "default", "b")
    assert slot.gain.ratio == pytest.approx(1.5, rel=0.01)
    assert [tried.policy.provider for tried in slot.tried] == ["a", "b", "c"]


def test_what_was_lucky_in_the_screening_is_not_accepted(bank):
    scripted = Scripted({"lucky": 1.5, "honest": 1.3}, confirmed={"lucky": 1.0})
    (slot,) = run(bank, scripted, [policy("lucky"), policy("honest")]).slots
    assert (slot.action, in_bank(bank)) == ("add", "honest")


def test_kinds_are_tuned_in_order_each_on_top_of_what_was_found(bank):
    scripted = Scripted({"layout": 1.5, "compiler": 1.3, "threads": 1.0})
    policies = [policy("threads", "Schedule"), policy("compiler", "Impl"), policy("layout", "Format")]
    outcome = run(bank, scripted, policies)
    assert [(slot.kind, slot.action) for slot in outcome.slots] == list(
        zip(KINDS[1:], ["add", "add", "unsatisfied"], strict=True)
    )
    assert in_bank(bank) == "layout + compiler"
    assert ("screen", "layout + compiler", "layout + compiler + threads") in scripted.trials


def test_a_hit_is_kept_without_measuring(bank):
    run(bank, Scripted({"a": 1.5}), [policy("a")])
    again = Scripted({"a": 1.5, "b": 9.0})
    (slot,) = run(bank, again, [policy("a"), policy("b")]).slots
    assert (slot.action, slot.from_bank, slot.policy, again.trials) == ("reserved", True, policy("a"), [])


def test_repeating_updates_only_by_something_better_than_what_is_there(bank):
    run(bank, Scripted({"a": 1.5}), [policy("a")])
    offers = [policy("a"), policy("b")]
    (worse,) = run(bank, Scripted({"a": 1.5, "b": 1.4}), offers, repeat=True).slots
    assert (worse.action, worse.from_bank, in_bank(bank)) == ("reserved", False, "a")
    (better,) = run(bank, Scripted({"a": 1.5, "b": 2.0}), offers, repeat=True).slots
    assert (better.action, in_bank(bank)) == ("update", "b")
    assert better.gain.ratio == pytest.approx(2.0 / 1.5, rel=0.01)


OLD = Policy(kind="Impl", provider="fast", settings={"version": "1"})
NEW = Policy(kind="Impl", provider="fast", settings={"version": "2"})
THREADS = policy("threads", "Schedule")


@pytest.fixture
def stale(bank):
    """A bank with a policy of another version than is here, and one that was measured on top of it."""
    for one, incumbent in ((OLD, ()), (THREADS, (OLD,))):
        bank.accept(mm_task(), MACHINE, one, incumbent=incumbent, gain=gain(1.5), min_gain=0.02, tried=[])
    return bank


def test_a_policy_of_another_version_and_what_was_measured_on_top_of_it_are_as_if_they_were_not_there(stale):
    scripted = Scripted({"fast": 1.4, "threads": 1.2})
    first, second = run(stale, scripted, [THREADS], [Fast()]).slots
    assert (first.action, first.policy, first.from_bank) == ("update", NEW, False)
    assert scripted.trials == [
        ("screen", "default", "fast version=2"),
        ("confirm", "default", "fast version=2"),
        ("screen", "fast version=2", "fast version=2 + threads"),
        ("confirm", "fast version=2", "fast version=2 + threads"),
    ]
    assert (second.action, second.from_bank, in_bank(stale)) == ("add", False, "fast version=2 + threads")
    assert stale.slots(mm_task(), MACHINE)["Impl"].base == ()


@pytest.mark.parametrize(("speed", "action", "held"), [(1.2, "update", "threads"), (0.7, "unsatisfied", "default")])
def test_what_was_measured_on_top_of_another_version_is_measured_without_it_before_it_stays(stale, speed, action, held):
    scripted = Scripted({"fast": 1.0, "threads": speed})
    slots = run(stale, scripted, [THREADS], [Fast()]).slots
    assert [slot.action for slot in slots] == ["unsatisfied", action]
    assert ("screen", "default", "threads") in scripted.trials
    again = Scripted({})
    run(stale, again, [THREADS], [Fast()])
    assert (again.trials, in_bank(stale)) == ([], held)


def test_another_kind_is_not_measured_on_top_of_a_policy_whose_provider_is_gone(bank):
    gone = policy("gone")
    bank.accept(mm_task(), MACHINE, gone, incumbent=(), gain=gain(1.5), min_gain=0.02, tried=[])
    scripted = Scripted({"layout": 1.5})
    outcome = run(bank, scripted, [policy("layout", "Format")], repeat=True)
    assert [slot.action for slot in outcome.slots] == ["add"]
    assert scripted.trials[0] == ("screen", "default", "layout")
    assert in_bank(bank) == "layout", "nobody measured what is gone together with the layout"


def test_a_neighbours_policy_of_another_version_is_not_tried(bank):
    bank.accept(mm_task(64), MACHINE, OLD, incumbent=(), gain=gain(1.4), min_gain=0.02, tried=[])
    scripted = Scripted({"fast": 1.4})
    (slot,) = run(bank, scripted, [], [Fast()]).slots
    assert [tried.policy for tried in slot.tried] == [NEW]
    assert slot.started_from == ""


def test_unsatisfied_is_not_tuned_again_for_nothing(bank):
    (first,) = run(bank, Scripted({"a": 1.01}), [policy("a")]).slots
    again = Scripted({"a": 9.0})
    (second,) = run(bank, again, [policy("a")]).slots
    assert (first.action, second.action, second.from_bank, again.trials) == ("unsatisfied", "unsatisfied", True, [])


@pytest.mark.parametrize("change", [{"min_gain": 0.001}, {"repeat": True}])
def test_unsatisfied_is_tuned_again_for_a_reason(bank, change):
    run(bank, Scripted({"a": 1.01}), [policy("a")])
    (slot,) = run(bank, Scripted({"a": 1.1}), [policy("a")], **change).slots
    assert (slot.action, in_bank(bank)) == ("add", "a")


def test_unsatisfied_is_tuned_again_with_a_new_candidate(bank):
    run(bank, Scripted({"a": 1.0}), [policy("a")])
    new = Scripted({"a": 1.0, "b": 1.2})
    assert run(bank, new, [policy("a"), policy("b")]).slots[0].action == "add"


def test_unsatisfied_is_tuned_again_on_top_of_another_layout(bank):
    run(bank, Scripted({"a": 1.0}), [policy("a")])
    layout = Scripted({"a": 1.0, "layout": 2.0})
    run(bank, layout, [policy("a"), policy("layout", "Format")])
    assert ("screen", "layout", "layout + a") in layout.trials


def test_a_later_kinds_policy_does_not_reopen_an_earlier_unsatisfied_kind(bank):
    speeds = {"layout": 1.0, "compiler": 1.5}
    offers = [policy("layout", "Format"), policy("compiler")]
    run(bank, Scripted(speeds), offers)
    again = Scripted(speeds)
    run(bank, again, offers)
    assert again.trials == []


@pytest.mark.parametrize("status", ["disagrees", "failed", "memory", "timeout", "died"])
def test_a_lost_candidate_costs_itself_only_and_is_remembered(bank, status):
    lost = Outcome(status=status, phase="candidate", detail="a reason")
    scripted = Scripted({"good": 1.5}, outcomes={"bad": lost})
    (slot,) = run(bank, scripted, [policy("bad"), policy("good")]).slots
    assert (slot.action, in_bank(bank)) == ("add", "good")
    assert slot.tried[0].outcome == lost


def test_what_a_busy_machine_left_open_is_not_remembered(bank):
    busy = Outcome(status="busy", phase="measure", detail="other programs")
    (slot,) = run(bank, Scripted({}, outcomes={"a": busy}), [policy("a")]).slots
    assert slot.action == "unsatisfied"
    assert bank.entries() == []
    assert run(bank, Scripted({"a": 1.5}), [policy("a")]).slots[0].action == "add"


def test_what_had_too_little_time_is_not_remembered_and_does_not_fail_the_operator(bank):
    late = Outcome(status="unfinished", phase="task", detail="1 s was not enough")
    outcome = run(bank, Scripted({"b": 1.0}, outcomes={"a": late}), [policy("a"), policy("b")])
    assert ([slot.action for slot in outcome.slots], outcome.failure) == (["unsatisfied"], "")
    assert bank.entries() == []


@pytest.mark.parametrize(("status", "phase"), [("task-failed", "task"), ("timeout", "task"), ("died", "start")])
def test_an_operator_that_does_not_run_fails_as_a_whole(bank, status, phase):
    broken = Outcome(status=status, phase=phase, detail="no kernel")
    outcome = run(bank, Scripted({}, outcomes={"a": broken}), [policy("a"), policy("b", "Schedule")])
    assert (outcome.slots, outcome.failure) == ([], f"{status}: no kernel")
    assert bank.entries() == []


def test_when_the_budget_ends_what_was_promising_is_still_confirmed(bank):
    scripted = Scripted({"a": 1.5, "b": 1.0}, budget=1)
    (slot,) = run(bank, scripted, [policy("a"), policy("b")]).slots
    assert (slot.action, in_bank(bank)) == ("add", "a")


def test_when_the_budget_ends_before_anything_is_promising_the_slot_stays_open(bank):
    with pytest.raises(OutOfBudget, match="--trials"):
        run(bank, Scripted({"a": 1.0, "b": 1.5}, budget=1), [policy("a"), policy("b")])
    assert bank.entries() == []


def test_what_was_judged_beforehand_counts_after_the_end_of_the_budget(bank):
    class Late(Scripted):
        def measure(self, trial):
            if trial.candidate == (policy("late"),):
                raise OutOfBudget("--time-budget")
            return super().measure(trial)

    (slot,) = run(bank, Late({"late": 1.0, "good": 1.5}), [policy("late"), policy("good")]).slots
    assert (slot.action, in_bank(bank)) == ("add", "good")


def test_a_policy_that_another_process_wrote_meanwhile_becomes_the_incumbent(bank):
    class Meddling(Scripted):
        def confirm(self, trial, limit_s=None):
            if len(self.trials) == 1:
                layout = policy("layout", "Format")
                bank.accept(mm_task(), MACHINE, layout, incumbent=(), gain=gain(1.4), min_gain=0.02, tried=[])
            return super().confirm(trial)

    scripted = Meddling({"a": 1.5, "layout": 1.4})
    (slot,) = run(bank, scripted, [policy("a")]).slots
    assert (slot.action, in_bank(bank)) == ("add", "layout + a")
    assert scripted.trials[-1] == ("confirm", "layout", "layout + a")


def test_a_bank_that_cannot_be_written_is_said_before_anything_is_measured_and_its_hits_are_taken(bank, monkeypatch):
    def refuse(self):
        raise BankError("the bank cannot be used")

    run(bank, Scripted({"a": 1.5}), [policy("a")])
    monkeypatch.setattr(Bank, "check_writable", refuse)
    assert run(bank, Scripted({}), [policy("a")]).slots[0].from_bank
    scripted = Scripted({"a": 1.5, "b": 1.5})
    with pytest.raises(BankError):
        run(bank, scripted, [policy("a"), policy("b", "Schedule")])
    assert scripted.trials == []


def test_a_gain_below_the_least_gain_is_unsatisfied_however_sure(bank):
    assert run(bank, Scripted({"a": 1.04}), [policy("a")], min_gain=0.05).slots[0].action == "unsatisfied"


def test_a_search_starts_from_the_nearest_task_and_says_so(bank):
    known = Tried(policy=policy("second"), outcome=measured(1.4))
    bank.accept(mm_task(64), MACHINE, policy("second"), incumbent=(), gain=gain(1.4), min_gain=0.02, tried=[known])
    scripted = Scripted({"first": 1.0, "second": 1.4})
    (slot,) = run(bank, scripted, [policy("first"), policy("second")]).slots
    assert [candidate for _, _, candidate in scripted.trials][:2] == ["second", "first"]
    assert slot.started_from.startswith("aten::mm(float32 64×8, float32 8×64), where shape of self is [64, 8]")


def test_a_neighbours_policy_of_more_threads_than_this_run_may_use_is_not_tried(bank):
    many = replace(MACHINE, num_threads=8)
    four = Policy(kind="Schedule", provider="threads", settings={"num_threads": 4})
    bank.accept(mm_task(), many, four, incumbent=(), gain=gain(1.5), min_gain=0.02, tried=[])
    scripted = Scripted({"threads": 1.0})
    one = Policy(kind="Schedule", provider="threads", settings={"num_threads": 1})
    (slot,) = run(bank, scripted, [one]).slots
    assert [tried.policy for tried in slot.tried] == [one]
