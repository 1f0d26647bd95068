"""Measuring again what the bank holds: each tuned operator with its policies against the same without any.

Graphs are left out: their weights are not in the bank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from jumar.base.findings import Json
from jumar.tune.bank.entry import Entry, by_task, stack_of
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Work
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.worker.client import Turns, Worker
from jumar.tune.measure.worker.messages import Outcome, Trial
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Stack, stack_to_json
from jumar.tune.providers import Provider, providers_on
from jumar.tune.search.gradients.model import ALL_REDUCE

Verdict = Literal["faster", "same", "slower", "disagrees", "not-judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remeasured:
    """What one operator's policies do now."""

    task: Work
    stack: Stack
    verdict: Verdict
    """By the confidence interval of the ratio default / tuned: above 1, around 1, below 1; `disagrees`: the outputs
    are not the same; `not-judged`: the machine was too busy, or a provider is missing here."""
    outcome: Outcome

    @property
    def detail(self) -> str:
        """The measurement, or why there is none."""
        return str(self.outcome.gain) if self.outcome.gain is not None else self.outcome.detail

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON values."""
        return {
            "task": self.task.to_json(),
            "policies": stack_to_json(self.stack),
            "verdict": self.verdict,
            "outcome": self.outcome.to_json(),
        }


def remeasure(
    entries: Sequence[Entry],
    machine: Machine,
    *,
    options: TuneOptions | None = None,
    providers: Sequence[Provider] | None = None,
    time_budget_s: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    turns: Turns | None = None,
) -> list[Remeasured]:
    """Measure the policies of `machine` among `entries`, each operator in a process of its own.

    Graphs, and operators that the time does not suffice for, are left out of the result. The bank is not changed.
    With `turns` runs that tune on this machine measure in between, never at the same time.
    """
    options = options or TuneOptions()
    groups = [group for group in tuned_on(machine, entries) if not isinstance(group[0].task, Graph)]
    offered = providers_on(machine) if providers is None else providers
    known = [provider for provider in offered if not provider.unavailable(machine)]
    names = {provider.name for provider in known}
    deadline = None if time_budget_s is None else time.monotonic() + time_budget_s
    found: list[Remeasured] = []
    with Worker(known, turns, device=machine.target) as worker:
        for number, group in enumerate(groups):
            if deadline is not None and time.monotonic() >= deadline:
                break
            stack = stack_of(group)
            missing = sorted({policy.provider for policy in stack} - names)
            if group[0].task.operator == ALL_REDUCE:
                outcome = Outcome(status="failed", detail="a training measures it: `jumar tune --job-type 4`")
            elif missing:
                outcome = Outcome(status="failed", detail=f"{', '.join(missing)} is not available here")
            else:
                trial = Trial(
                    task=group[0].task, incumbent=(), candidate=stack, num_threads=machine.num_threads,
                    seed=options.seed, min_gain=options.min_gain, effort=options.confirmation,
                )  # fmt: skip
                outcome = worker.run(trial, options.limits)
            found.append(Remeasured(task=group[0].task, stack=stack, verdict=_verdict(outcome), outcome=outcome))
            if on_progress is not None:
                on_progress(number + 1, len(groups))
    return found


def tuned_on(machine: Machine, entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries of each operator or graph that has policies for `machine`."""
    return [group for group in by_task(entries) if group[0].machine.key == machine.key and stack_of(group)]


def _verdict(outcome: Outcome) -> Verdict:
    if outcome.status == "disagrees":
        return "disagrees"
    if outcome.status != "measured" or outcome.gain is None:
        return "not-judged"
    if outcome.gain.ratio_low > 1:
        return "faster"
    return "slower" if outcome.gain.ratio_high < 1 else "same"
