"""A model before and after its operators were tuned: all their policies applied at once, through the same gate.

Policies that are faster one by one may lose together: layouts are converted at every border, threads are set for
every call. So the whole graph is measured against PyTorch's eager operators, and where it is faster beyond doubt also
against what it runs as when the bank is asked for it (its plan, else TorchInductor's default). Only what wins there
becomes the graph's plan, so that `torch.compile(model, backend="jumar")` runs it; else the policies stay what they
are, knowledge of operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jumar.base.text import counted
from jumar.tune.bank.entry import stack_of
from jumar.tune.bank.presence import usable
from jumar.tune.bank.store import Bank
from jumar.tune.engines.inductor.engine import Inductor
from jumar.tune.measure.measuring import Measurer, OutOfBudget
from jumar.tune.measure.options import TuneOptions
from jumar.tune.measure.worker.messages import Outcome, Trial
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Stack, Task, describe
from jumar.tune.plan import Plan, Region
from jumar.tune.plan.plan import KIND
from jumar.tune.providers.operators import Operators, settings_of
from jumar.tune.search.outcome import ComposedOutcome
from jumar.tune.search.subgraph.trials import SLOW
from jumar.tune.search.tasks.source import extract_graphs

if TYPE_CHECKING:
    from jumar.tune.graph.capture.captured import Captured

SEED = 3000
"""Added to the seed, so that these measurements have inputs of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composer:
    """Measures the graphs of a model whose operators were tuned."""

    bank: Bank
    machine: Machine
    options: TuneOptions
    measurer: Measurer

    def compose(self, captured: Captured) -> ComposedOutcome:
        """Measure one graph, and write its plan where that is better than what the graph runs as."""
        tasks = [use.task for use in extract_graphs([captured]).tasks]
        if not tasks:
            return ComposedOutcome(name=captured.name, num_policies=0)
        stacks = self._stacks(tasks)
        plan = self._plan(stacks)
        self.measurer.name = captured.name
        try:
            found = self._measured(captured, plan, ())
            made = self._judged(captured, len(stacks), found)
            if not made.is_faster or self.machine.device != "cpu":  # `torch.compile` asks for the CPU's plans
                return made
            return self._written(captured, plan, made)
        except OutOfBudget as error:
            told = f"{captured.name} was not measured with its operators' policies: {error} was used up."
            return ComposedOutcome(name=captured.name, num_policies=len(stacks), told=told)

    def _stacks(self, tasks: Sequence[Task]) -> dict[str, Stack]:
        """Return the policies of each task that can be used here, by its key."""
        known = {task.key: self.bank.slots(task, self.machine).values() for task in tasks}
        stacks = {key: stack_of(usable(entries, self.machine)) for key, entries in known.items()}
        return {key: stack for key, stack in stacks.items() if stack}

    def _plan(self, stacks: dict[str, Stack]) -> Plan:
        engine = Operators()
        region = Region(nodes=(), engine=engine.name, settings=settings_of(stacks), version=engine.version())
        return Plan(regions=(region,))

    def _measured(self, captured: Captured, plan: Plan, against: Stack) -> Outcome:
        """Measure a whole graph, which takes as long as one does in job 1: dozens of slow calls, and compiling."""
        trial = Trial(
            task=captured.graph, incumbent=against, candidate=(plan.policy(),), num_threads=self.machine.num_threads,
            seed=self.options.seed + SEED, min_gain=self.options.min_gain, effort=self.options.confirmation,
            data=str(captured.data) if captured.data else "",
        )  # fmt: skip
        return self.measurer.confirm(trial, self.options.limits.time_s * SLOW)

    def _judged(self, captured: Captured, num: int, found: Outcome) -> ComposedOutcome:
        """Return what the measurement against eager says."""
        made = ComposedOutcome(name=captured.name, num_policies=num, gain=found.gain)
        if found.gain is None:
            return replace(made, told=f"{captured.name} is left as it was: {found.status}, {found.detail}.")
        if not num:  # what was measured is eager against itself, for the model's time in the result file
            told = f"No operator of {captured.name} has a policy, so that it is left as it was."
            return replace(made, told=told)
        is_faster = found.gain.clears(self.options.min_gain)
        told = f"{captured.name} with the policies of {counted(num, 'operator')} against eager: {found.gain}" + (
            "." if is_faster else ", not faster beyond doubt, so that it is left as it was."
        )
        return replace(made, is_faster=is_faster, told=told)

    def _written(self, captured: Captured, plan: Plan, made: ComposedOutcome) -> ComposedOutcome:
        """Make `plan` the graph's in the bank, if it beats what the graph runs as."""
        entry = self.bank.slots(captured.graph, self.machine).get(KIND)
        held = [entry] if entry is not None else []
        known = stack_of(usable(held, self.machine))
        if known == (plan.policy(),):
            return replace(made, is_written=True, told=f"{made.told} The bank has it as the graph's plan.")
        self.bank.check_writable()
        against = known or self._default()
        found = self._measured(captured, plan, against) if against else Outcome(status="built")
        gain = found.gain if against else made.gain
        what = describe_of(against)
        if gain is None or not gain.clears(self.options.min_gain):
            why = f"{found.status}, {found.detail}" if gain is None else str(gain)
            told = f"{made.told} It is not the graph's plan, because it is not faster than {what} ({why})."
            return replace(made, told=told)
        change = self.bank.accept(
            captured.graph, self.machine, plan.policy(), incumbent=stack_of(held), base=known, gain=gain,
            min_gain=self.options.min_gain, tried=[],
        )  # fmt: skip
        told = f"{made.told} It is the graph's plan now, against {what}: {gain}."
        return replace(made, is_written=change is not None, told=told if change is not None else made.told)

    def _default(self) -> Stack:
        """Return what a graph without a plan is compiled to; nothing where there is no compiler."""
        engine = Inductor()
        if engine.unavailable(self.machine):
            return ()
        return (Plan(regions=(Region(nodes=(), engine=engine.name, version=engine.version()),)).policy(),)


def describe_of(stack: Stack) -> str:
    """Return a graph's stack in words: its plan, `eager`."""
    return str(Plan.of(stack[0])) if stack and stack[0].kind == KIND else "eager" if not stack else describe(stack)
