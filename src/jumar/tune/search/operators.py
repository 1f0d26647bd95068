"""Tuning one task: kind after kind, each candidate in place of its kind in the stack that is best so far.

    incumbent = the stack in the bank (at first nothing: the operator as PyTorch runs it)
    for kind in Format, Impl, Schedule:
        screen every candidate against the incumbent            one process each
        confirm those that cleared the gate, best first         a fresh process, fresh inputs, more pairs
        the first that clears the gate again becomes part of the incumbent and goes into the bank

The second measurement is what counts and what is reported: the best of several noisy screenings looks
better than it is, and the layout of one process's memory may favour a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jumar.tune.bank.entry import Entry, Tried, stack_of
from jumar.tune.bank.presence import missing, usable
from jumar.tune.bank.store import Bank
from jumar.tune.measure.measuring import OutOfBudget
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.worker.messages import Effort, Outcome, Trial
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import KINDS, Policy, PolicyKind, Stack, Task, replace_in
from jumar.tune.providers.base import Provider
from jumar.tune.search.outcome import SlotOutcome, TaskOutcome
from jumar.tune.search.subgraph.outcome import NOT_JUDGED

Measure = Callable[[Trial], Outcome]
"""Carries out one trial. Raises `OutOfBudget` when none may be begun any more."""

CONFIRMATION_SEED = 1000
"""Added to the seed, so that the confirmation has inputs of its own."""

CONFLICT_ROUNDS = 3
"""How often a slot is searched again because another process changed the task's policies meanwhile."""


class OperatorFailed(Exception):
    """The operator itself cannot be run here."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What the bank holds for a task.

    A policy that needs what is not here (a provider, another version of an engine) counts as absent: candidates are
    measured without it. It is still a part of what the bank holds.
    """

    entries: Mapping[PolicyKind, Entry]
    usable: Mapping[PolicyKind, Entry]

    @property
    def stack(self) -> Stack:
        """Everything that the bank holds."""
        return stack_of(list(self.entries.values()))

    @property
    def incumbent(self) -> Stack:
        """What candidates are measured against."""
        return stack_of(list(self.usable.values()))

    def policy(self, kind: PolicyKind) -> Policy | None:
        """Return the policy of a kind that the bank holds, whether it can be used or not."""
        return self.entries[kind].policy if kind in self.entries else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How tasks are tuned in this run."""

    bank: Bank
    machine: Machine
    options: TuneOptions
    providers: Sequence[Provider]
    measure: Measure
    """A screening: counts as a trial."""
    confirm: Measure
    """A confirmation: belongs to a trial that was counted."""
    on_slot: Callable[[Task, PolicyKind], None]
    """Called before a slot is looked at."""
    prepare: Callable[[Sequence[Trial]], object] = tuple
    """Does what can be done at once for screenings that follow."""

    def candidates(self, task: Task) -> dict[PolicyKind, list[Policy]]:
        """Return the candidates of each kind that has any, in the order of the kinds."""
        offers = [policy for provider in self.providers for policy in provider.candidates(task, self.machine)]
        kinds = {kind: [policy for policy in offers if policy.kind == kind] for kind in KINDS}
        return {kind: policies for kind, policies in kinds.items() if policies}

    def tune(self, outcome: TaskOutcome) -> None:
        """Fill `outcome` slot by slot. Raises OutOfBudget with what was done so far kept in it."""
        try:
            for kind, candidates in self.candidates(outcome.use.task).items():
                self.on_slot(outcome.use.task, kind)
                outcome.slots.append(self._tune_slot(outcome.use.task, kind, candidates))
        except OperatorFailed as error:
            outcome.failure = str(error)

    def _tune_slot(self, task: Task, kind: PolicyKind, candidates: Sequence[Policy]) -> SlotOutcome:
        for _ in range(CONFLICT_ROUNDS):
            held = self._held(task)
            entry = held.usable.get(kind)
            if entry is not None and (answer := self._from_bank(entry, candidates, held.incumbent)) is not None:
                return answer
            self.bank.check_writable()
            ordered, started_from = self._from_neighbour(task, kind, candidates) if not entry else (candidates, "")
            done = self._measure_slot(task, kind, ordered, held)
            if done is not None:
                return replace(done, started_from=started_from)
        raise TuneError(
            f"other processes keep changing the policies of {task.operator} in {self.bank.name}; "
            "let them finish, then tune again."
        )

    def _held(self, task: Task) -> _Held:
        entries = self.bank.slots(task, self.machine)
        here = usable(entries.values(), self.machine, self.providers)
        return _Held(entries, {entry.kind: entry for entry in here})

    def _from_neighbour(
        self, task: Task, kind: PolicyKind, candidates: Sequence[Policy]
    ) -> tuple[Sequence[Policy], str]:
        """Return the candidates with the policy of the nearest task first, also one that is offered there only.

        Also returned: which task that is, in words.
        """
        for neighbour in self.bank.nearest(task, self.machine):
            for policy in neighbour.stack:
                if policy.kind == kind and (policy in candidates or self._is_offered(policy)):
                    return [policy, *(one for one in candidates if one != policy)], str(neighbour)
        return candidates, ""

    def _is_offered(self, policy: Policy) -> bool:
        """Tell whether a provider of this run can apply a policy, which a run with more threads may have found."""
        is_known = any(provider.name == policy.provider for provider in self.providers)
        count = policy.settings.get("num_threads")
        fits = not isinstance(count, int) or count <= self.machine.num_threads
        return is_known and fits and not missing([policy], self.machine, self.providers)

    def _from_bank(self, entry: Entry, candidates: Sequence[Policy], incumbent: Stack) -> SlotOutcome | None:
        """Return the bank's answer, or None when the slot has to be measured."""
        if self.options.repeat:
            return None
        if entry.policy is not None:
            return SlotOutcome(kind=entry.kind, action="reserved", policy=entry.policy, gain=entry.gain, from_bank=True)
        tried = [one.policy for one in entry.tried]
        stale = (
            any(candidate not in tried for candidate in candidates)
            or self.options.min_gain < entry.min_gain
            or _below(entry.kind, incumbent) != _below(entry.kind, entry.base)
        )
        return None if stale else SlotOutcome(kind=entry.kind, action="unsatisfied", from_bank=True)

    def _measure_slot(
        self, task: Task, kind: PolicyKind, candidates: Sequence[Policy], held: _Held
    ) -> SlotOutcome | None:
        """Screen, confirm and write. None when another process has changed the incumbent.

        When the budget ends, what has cleared the screening is still confirmed; a slot without such a
        candidate stays open, so that the next run takes it up.
        """
        incumbent, entry = held.incumbent, held.usable.get(kind)
        tried, ran_out = self._screen_all(task, incumbent, candidates)
        confirmed = self._confirm_best(task, incumbent, tried)
        if confirmed is not None:
            policy, gain = confirmed
            change = self.bank.accept(
                task, self.machine, policy, incumbent=held.stack, base=incumbent, gain=gain,
                min_gain=self.options.min_gain, tried=tried,
            )  # fmt: skip
            if change is None:
                return None
            return SlotOutcome(kind=kind, action=change, policy=policy, gain=gain, tried=tuple(tried))
        if ran_out is not None:
            raise ran_out
        if entry is not None and entry.policy is not None:
            return SlotOutcome(kind=kind, action="reserved", policy=entry.policy, gain=entry.gain, tried=tuple(tried))
        if any(one.outcome.status in NOT_JUDGED for one in tried):
            return SlotOutcome(kind=kind, action="unsatisfied", tried=tuple(tried))  # not judged: not remembered
        self.bank.remember_unsatisfied(
            task, self.machine, kind, incumbent=incumbent, min_gain=self.options.min_gain, tried=tried,
            in_place_of=held.policy(kind),
        )  # fmt: skip
        return SlotOutcome(kind=kind, action="unsatisfied", tried=tuple(tried))

    def _screen_all(
        self, task: Task, incumbent: Stack, candidates: Sequence[Policy]
    ) -> tuple[list[Tried], OutOfBudget | None]:
        """Screen every candidate; also returned: what ended that.

        Those that were judged beforehand, or by an earlier run, count also after the end of the budget.
        """
        tried: list[Tried] = []
        ran_out: OutOfBudget | None = None
        new = [policy for policy in candidates if policy not in incumbent]
        self.prepare([self._trial(task, incumbent, policy, self.options.screening) for policy in new])
        for policy in new:
            try:
                outcome = self._run(self.measure, task, incumbent, policy, self.options.screening)
            except OutOfBudget as error:
                ran_out = ran_out or error
            else:
                tried.append(Tried(policy=policy, outcome=outcome))
        return tried, ran_out

    def _confirm_best(self, task: Task, incumbent: Stack, tried: list[Tried]) -> tuple[Policy, Gain] | None:
        """Return the first policy that clears the gate again, best screening first; `tried` learns the outcomes."""
        promising = [place for place, one in enumerate(tried) if self._clears(one.outcome)]
        for place in sorted(promising, key=lambda place: -_low(tried[place].outcome)):
            policy = tried[place].policy
            outcome = self._run(
                self.confirm, task, incumbent, policy, self.options.confirmation, seed_offset=CONFIRMATION_SEED
            )
            tried[place] = Tried(policy=policy, outcome=outcome)
            if outcome.gain is not None and self._clears(outcome):
                return policy, outcome.gain
        return None

    def _run(
        self, measure: Measure, task: Task, incumbent: Stack, policy: Policy, effort: Effort, seed_offset: int = 0
    ) -> Outcome:
        outcome = measure(self._trial(task, incumbent, policy, effort, seed_offset))
        is_early = outcome.status not in {"measured", "unfinished"} and outcome.phase in {"start", "task"}
        if outcome.status == "task-failed" or is_early:
            raise OperatorFailed(f"{outcome.status}: {outcome.detail}")
        return outcome

    def _trial(self, task: Task, incumbent: Stack, policy: Policy, effort: Effort, seed_offset: int = 0) -> Trial:
        return Trial(
            task=task,
            incumbent=incumbent,
            candidate=replace_in(incumbent, policy),
            num_threads=self.machine.num_threads,
            seed=self.options.seed + seed_offset,
            min_gain=self.options.min_gain,
            effort=effort,
        )

    def _clears(self, outcome: Outcome) -> bool:
        return outcome.status == "measured" and outcome.gain is not None and outcome.gain.clears(self.options.min_gain)


def _low(outcome: Outcome) -> float:
    return outcome.gain.ratio_low if outcome.gain is not None else 0.0


def _below(kind: PolicyKind, stack: Stack) -> Stack:
    """Return the policies that a policy of `kind` wraps."""
    return tuple(policy for policy in stack if KINDS.index(policy.kind) < KINDS.index(kind))
