"""How a run measures: within its budget, never twice the same, and written down.

Job 1 and job 2 hand every trial to a `Measurer`. It asks the job file of an interrupted run first, keeps the
limits of time and number, and notes what was measured when. What carries trials out is a `Runner`: a worker
process of this machine, several of them that compile at once (`jumar.tune.parallel`), or a cluster
(`jumar.tune.cluster`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Protocol

from jumar.tune.history import Measurement, Role
from jumar.tune.options import TuneOptions
from jumar.tune.plan import Plan
from jumar.tune.plan.plan import PROVIDER
from jumar.tune.policy import describe
from jumar.tune.resume import JobFile, trial_key
from jumar.tune.worker import Limits, Outcome, Trial


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

    def prepare(self, trials: Sequence[Trial], limits: Limits) -> Iterable[tuple[Trial, Outcome]]:
        """Do beforehand what can be done at once; give those that are judged by that, as they come."""


Prepare = Callable[[Sequence[Trial], Limits], Iterable[tuple[Trial, Outcome]]]
"""Does beforehand, for several screenings at once, what can be done at once; gives those that are judged by that, as
they come."""


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
    ) -> None:
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
        self._start = clock()
        self._judged: dict[str, Outcome] = {}

    def elapsed_s(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._start

    def prepare(self, trials: Sequence[Trial]) -> None:
        """Let what can be done at once for these screenings be done; nothing happens where only one may run."""
        if self._prepare is None:
            return
        new = [trial for trial in trials if self._job is None or self._job.find(trial, count=False) is None]
        if self._options.max_trials is not None:
            new = new[: max(0, self._options.max_trials - self.num_trials)]
        if not new or (left := self._left_s()) <= 0:
            return
        begun, limits, judged = self.elapsed_s(), self._limits(left), 0
        for trial, outcome in self._prepare(new, limits):
            if outcome.status == "timeout" and limits.time_s < self._options.limits.time_s:
                continue  # it was not given its full time
            judged += 1
            self._judged[trial_key(trial)] = outcome
            self._note(trial, outcome, "screening", (self.elapsed_s() - begun) / judged)
            if self._job is not None:
                self._job.keep(trial, outcome)
            if self._left_s() <= 0:
                return
        share_s = (self.elapsed_s() - begun) / len(new)
        for trial in new:
            if trial_key(trial) not in self._judged:
                self._note(trial, Outcome(status="built"), "build", share_s)

    def screen(self, trial: Trial, reserve_s: float = 0.0) -> Outcome:
        """Carry out a screening. Raises OutOfBudget when none may be begun any more.

        `reserve_s` of the time are not touched: they are kept for a confirmation.
        """
        judged = self._judged.pop(trial_key(trial), None)
        known = self._job.find(trial) if self._job is not None and judged is None else None
        if known is not None:
            self._note(trial, known, "screening", 0.0, reused=True)
            return known
        if self._options.max_trials is not None and self.num_trials >= self._options.max_trials:
            raise OutOfBudget("--trials")
        outcome = judged or self._carry_out(trial, "screening", reserve_s)
        self.num_measurements += judged is not None
        self.num_trials += 1
        if self._job is not None and judged is None:
            self._job.keep(trial, outcome)
        return outcome

    def confirm(self, trial: Trial) -> Outcome:
        """Carry out a confirmation, which belongs to a screening that was counted. Raises OutOfBudget."""
        return self._carry_out(trial, "confirmation")

    def _carry_out(self, trial: Trial, role: Role, reserve_s: float = 0.0) -> Outcome:
        reserve_s = reserve_s if self._options.time_budget_s is not None else 0.0
        left, begun = self._left_s() - reserve_s, self.elapsed_s()
        if left <= 0:
            raise OutOfBudget("--time-budget")
        outcome = self._runner.run(trial, self._limits(left))
        if outcome.status == "died" and outcome.phase == "start":  # the worker's end, not the candidate's
            outcome = self._runner.run(trial, self._limits(self._left_s() - reserve_s))
        if outcome.status == "timeout" and left < self._options.limits.time_s:
            raise OutOfBudget("--time-budget")  # the candidate was not given its full time: it is not judged
        self.num_measurements += 1
        self._note(trial, outcome, role, self.elapsed_s() - begun)
        return outcome

    def _limits(self, left_s: float) -> Limits:
        limits = self._options.limits
        return Limits(time_s=min(limits.time_s, left_s), memory_bytes=limits.memory_bytes)

    def _left_s(self) -> float:
        if self._options.time_budget_s is None:
            return self._options.limits.time_s
        return self._options.time_budget_s - self.elapsed_s()

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
