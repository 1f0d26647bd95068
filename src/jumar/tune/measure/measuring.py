"""How a run measures: within its budget, never twice the same, and written down.

Job 1 and job 2 hand every trial to a `Measurer`. It asks the job file of an interrupted run first, keeps the
limits of time and number, and notes what was measured when. What carries trials out is a `Runner`: a worker
process of this machine, several of them that compile at once (`jumar.tune.measure.parallel`), or a cluster
(`jumar.tune.measure.cluster`).

`Measurement` is one entry of the run's history: where the time went, and how the search went on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Literal, Protocol

from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.resume import JobFile, trial_key
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial
from jumar.tune.model.task import describe
from jumar.tune.plan import Plan
from jumar.tune.plan.plan import PROVIDER

Role = Literal["screening", "confirmation", "build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One candidate that was built, screened or confirmed."""

    name: str
    """Of the operator or graph."""
    candidate: str
    """The stack that was tried, in words."""
    provider: str
    role: Role
    status: str
    at_s: float
    """When it ended, in seconds since the run began."""
    took_s: float
    ratio: float | None = None
    """Before over after; None when it was not measured."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    before_us: float | None = None
    after_us: float | None = None
    reused: bool = False
    """Taken over from the job file of a run that was interrupted: took no time now."""
    where: str = ""
    """The machine of a cluster that measured it."""

    @classmethod
    def of(
        cls, outcome: Outcome, *, name: str, candidate: str, provider: str, role: Role, at_s: float, took_s: float,
        reused: bool = False, where: str = "",
    ) -> Measurement:  # fmt: skip
        """Return what `outcome` says, with its place in the run."""
        gain = outcome.gain
        return cls(
            name=name, candidate=candidate, provider=provider, role=role, status=outcome.status, at_s=at_s,
            took_s=took_s, reused=reused, where=where,
            ratio=None if gain is None else gain.ratio,
            ratio_low=None if gain is None else gain.ratio_low,
            ratio_high=None if gain is None else gain.ratio_high,
            before_us=None if gain is None else gain.before_us,
            after_us=None if gain is None else gain.after_us,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return every field; unbounded ends of the interval are the string `inf`."""
        data = asdict(self)
        return {name: "inf" if value == float("inf") else value for name, value in data.items()}


GRACE, LEAST_GRACE_S, GREATEST_GRACE_S = 0.25, 5.0, 60.0
"""So much later than the budget, as a share of it and in seconds, confirmations may end."""

SHARE, LEAST_SHARE_S = 0.7, 1.0
"""Of the time that is left, one candidate may take this much, so that one that hangs does not take it all."""

SecondsLeft = Callable[[], float]
"""Tells what is left of a run's time: the seconds until no trial may be under way any more."""


class OutOfBudget(Exception):
    """The time or the number of trials that was asked for is used up."""


class Runner(Protocol):
    """Carries out trials, each in a process of its own."""

    def run(self, trial: Trial, limits: Limits) -> Outcome:
        """Measure a trial; no other is measured on that machine meanwhile."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class PreparingRunner(Runner, Protocol):
    """A runner that can also do something for several trials at once."""

    @property
    def notes(self) -> list[str]:
        """What is worth knowing about it, in sentences."""

    @property
    def num_lanes(self) -> int:
        """How many trials `prepare` looks after at once; with one it is not worth calling."""

    def prepare(self, trials: Sequence[Trial], limits: Limits, left_s: SecondsLeft) -> Iterable[tuple[Trial, Outcome]]:
        """Do beforehand what can be done at once; give those that are judged by that, as they come.

        No trial is begun when nothing is left, and one that is begun late is ended with the time: a timeout that comes
        of that is `unfinished`.
        """


Prepare = Callable[[Sequence[Trial], Limits, SecondsLeft], Iterable[tuple[Trial, Outcome]]]
"""What `PreparingRunner.prepare` does."""


class Measurer:
    """Carries out the trials of one run."""

    def __init__(
        self,
        options: TuneOptions,
        runner: Runner,
        *,
        prepare: Prepare | None = None,
        job: JobFile | None = None,
        clock: Callable[[], float] = time.monotonic,
        began: float | None = None,
    ) -> None:
        """`began`, by `clock`, is when the user began to wait (None: now): what came before counts, too."""
        self.history: list[Measurement] = []
        self.num_trials = 0
        """Screenings of this run; those of the job file do not count."""
        self.num_measurements = 0
        self.name = ""
        """The operator or graph at hand, for the history."""
        self._options = options
        self._runner = runner
        self._prepare = prepare
        self._job = job
        self._clock = clock
        self._start = clock() if began is None else began
        self._judged: dict[str, Outcome] = {}

    def elapsed_s(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._start

    def share_s(self) -> float | None:
        """Return how long one candidate may take where nothing else says it; None: as the options say."""
        left_s = self._left_s()
        return None if left_s == math.inf else min(self._options.limits.time_s, max(SHARE * left_s, LEAST_SHARE_S))

    def prepare(
        self, trials: Sequence[Trial], reserve_s: float = 0.0, limit_s: float | None = None, full_s: float | None = None
    ) -> None:
        """Let what can be done at once for these screenings be done; nothing happens where only one may run.

        All of them together leave `reserve_s` of the time. `limit_s` is what each may take, `full_s` what each
        deserves, as for `screen`.
        """
        if self._prepare is None:
            return
        new = [trial for trial in trials if self._job is None or self._job.find(trial, count=False) is None]
        if self._options.max_trials is not None:
            new = new[: max(0, self._options.max_trials - self.num_trials)]

        def left_s() -> float:
            return self._left_s() - self._kept(reserve_s)

        if not new or left_s() <= 0:
            return
        begun, limits, given = self.elapsed_s(), self._limits(left_s(), limit_s), set[str]()
        for trial, found in self._prepare(new, limits, left_s):
            outcome = unless_cut_short(found, limits.time_s, self._full_s(full_s))
            given.add(trial_key(trial))
            if is_lost(outcome) or outcome.status == "unfinished":
                continue  # it does not judge the candidate, which is measured again
            self._judged[trial_key(trial)] = outcome
            self._note(trial, outcome, "screening", (self.elapsed_s() - begun) / len(given))
            if self._job is not None:
                self._job.keep(trial, outcome)
        if left_s() <= 0:
            return  # which of the others were built is not known
        share_s = (self.elapsed_s() - begun) / len(new)
        for trial in new:
            if trial_key(trial) not in given:
                self._note(trial, Outcome(status="built"), "build", share_s)

    def screen(
        self, trial: Trial, reserve_s: float = 0.0, limit_s: float | None = None, full_s: float | None = None
    ) -> Outcome:
        """Carry out a screening. Raises OutOfBudget when none may be begun any more.

        `reserve_s` of the time are not touched: they are kept for a confirmation. `limit_s` is what this candidate may
        take, `full_s` what it deserves (None: what the options say, for both). One that is ended after less than it
        deserves is `unfinished`, which judges nothing.
        """
        judged = self._judged.pop(trial_key(trial), None)
        known = self._job.find(trial) if self._job is not None and judged is None else None
        if known is not None:
            self._note(trial, known, "screening", 0.0, reused=True)
            return known
        if self._options.max_trials is not None and self.num_trials >= self._options.max_trials:
            raise OutOfBudget("--trials")
        left_s = self._left_s() - self._kept(reserve_s)
        outcome = judged or self._carry_out(trial, "screening", left_s, limit_s, full_s)
        self.num_measurements += judged is not None
        self.num_trials += 1
        if self._job is not None and judged is None:
            self._job.keep(trial, outcome)
        return outcome

    def confirm(self, trial: Trial, limit_s: float | None = None) -> Outcome:
        """Carry out a confirmation, which belongs to a screening that was counted. Raises OutOfBudget.

        `limit_s` is what it may take and deserves (None: what the options say).
        It may end a little later than the budget says: what was found would be lost otherwise.
        """
        return self._carry_out(trial, "confirmation", self._left_s() + self._grace_s(), limit_s, limit_s)

    def _carry_out(
        self, trial: Trial, role: Role, left_s: float, limit_s: float | None, full_s: float | None
    ) -> Outcome:
        begun = self.elapsed_s()
        if left_s <= 0:
            raise OutOfBudget("--time-budget")
        limits = self._limits(left_s, limit_s)
        found = self._runner.run(trial, limits)
        if is_lost(found):
            limits = self._limits(left_s - (self.elapsed_s() - begun), limit_s)
            found = self._runner.run(trial, limits)
        outcome = unless_cut_short(found, limits.time_s, self._full_s(full_s))
        if outcome.status == "unfinished" and (limit_s is None or limits.time_s < limit_s):
            raise OutOfBudget("--time-budget")  # it was not even given its share
        self.num_measurements += 1
        self._note(trial, outcome, role, self.elapsed_s() - begun)
        return outcome

    def _full_s(self, full_s: float | None) -> float:
        return full_s or self._options.limits.time_s

    def _limits(self, left_s: float, limit_s: float | None = None) -> Limits:
        limits = self._options.limits
        return Limits(time_s=min(limit_s or limits.time_s, left_s), memory_bytes=limits.memory_bytes)

    def _left_s(self) -> float:
        if self._options.time_budget_s is None:
            return math.inf
        return self._options.time_budget_s - self.elapsed_s()

    def _kept(self, reserve_s: float) -> float:
        return reserve_s if self._options.time_budget_s is not None else 0.0

    def _grace_s(self) -> float:
        budget = self._options.time_budget_s
        return 0.0 if budget is None else min(max(budget * GRACE, LEAST_GRACE_S), GREATEST_GRACE_S)

    def _note(self, trial: Trial, outcome: Outcome, role: Role, took_s: float, *, reused: bool = False) -> None:
        candidate, provider = _words(trial)
        self.history.append(
            Measurement.of(
                outcome, name=self.name, candidate=candidate, provider=provider, role=role, at_s=self.elapsed_s(),
                took_s=took_s, reused=reused,
            )
        )  # fmt: skip


def _words(trial: Trial) -> tuple[str, str]:
    """Return what a trial tries beyond its incumbent, and who computes it: the provider, for a plan its engines."""
    own = [policy for policy in trial.candidate if policy not in trial.incumbent] or list(trial.candidate)
    if not own:
        return describe(()), "default"
    if own[0].provider == PROVIDER:
        plan = Plan.of(own[0])
        return str(plan), " | ".join(dict.fromkeys(region.engine for region in plan.regions))
    return describe(tuple(own)), own[0].provider


def within(limits: Limits, left_s: float) -> Limits:
    """Return the limits of a trial that begins when `left_s` of the time are left."""
    return replace(limits, time_s=min(limits.time_s, max(left_s, 0.0)))


def is_lost(outcome: Outcome) -> bool:
    """Tell whether the worker came to its end, not the candidate."""
    return outcome.status == "died" and outcome.phase == "start"


def unless_cut_short(outcome: Outcome, given_s: float, full_s: float) -> Outcome:
    """Return a timeout as `unfinished` where the candidate was given less than its full time."""
    if outcome.status != "timeout" or given_s >= full_s:
        return outcome
    detail = f"{given_s:.0f} s, which the time budget leaves for it, were not enough"
    return replace(outcome, status="unfinished", detail=detail)
