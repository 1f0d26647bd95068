"""Compares one step of two runs call by call, in the reference's order of execution."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from jumar.comparison.align.align import AlignedStep, Pair
from jumar.comparison.align.structure import unmatched
from jumar.comparison.judge.flow import Flow, Side
from jumar.comparison.judge.judge import Judge, Judgement
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.parameter_updates import ParameterJudge
from jumar.comparison.measure.leaves import Leaf, parameter_storages
from jumar.comparison.measure.loading import Load
from jumar.comparison.measure.records import Operators, Postponed
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import EXACT
from jumar.comparison.model.results import OperatorDiff, OperatorStatus, UnmatchedCall
from jumar.comparison.walk.blame import Suspicion, blame, drew_others


@dataclass(slots=True)
class StepOutcome:
    """What one step of one rank shows."""

    operators: Operators = field(default_factory=Operators)
    unmatched_reference: list[UnmatchedCall] = field(default_factory=list)
    unmatched_target: list[UnmatchedCall] = field(default_factory=list)
    first: OperatorDiff | None = None
    """First divergence, before leaves and random numbers are taken into account."""
    random: OperatorDiff | None = None
    """First operator that drew other random numbers, if before the first divergence."""
    leaves: list[Leaf] = field(default_factory=list)
    """Leaves that differ, those that are read before the first divergence first."""
    num_leaves_before_first: int = 0
    nonfinite: OperatorDiff | None = None
    """First operator with more NaN or Inf elements in its output on one side, its inputs being alike."""
    kind: Literal["op", "module", "none"] = "none"


def compare_step(step: AlignedStep, load: Load, *, tolerance_scale: float, memory: Memory | None = None) -> StepOutcome:
    """Compare the calls of one step and rank, pair by pair in the reference's order of execution.

    `memory` is what the rank's steps before have left; it must have begun this step.
    """
    memory = memory or Memory()
    outcome = StepOutcome(kind=step.kind)
    if step.kind == "none":
        return outcome
    flow = Flow(step.reference, step.target)
    flow.enabled = flow.enabled and step.kind == "op"
    walk = _Walk(
        outcome,
        Judge(flow, parameter_storages(step.reference), load, memory, tolerance_scale),
        ParameterJudge(flow, memory, load, tolerance_scale),
        memory,
        {id(call) for call in step.reference},
    )
    for pair in step.pairs:
        walk.take(pair)
    walk.end()
    return outcome


@dataclass(slots=True)
class _Walk:
    """The walk through the pairs of one step."""

    outcome: StepOutcome
    operators: Judge
    parameters: ParameterJudge
    memory: Memory
    of_reference: set[int]
    """Identities of the reference's calls."""
    suspicion: Suspicion | None = None
    kept: list[OperatorDiff | Postponed] = field(default_factory=list)

    def end(self) -> None:
        """Decide what had to wait for the end of the step."""
        self.outcome.operators = Operators(self.kept)
        if self.suspicion is not None and self.suspicion.is_confirmed:
            self.outcome.first, self.outcome.random = self.suspicion.diff, self.suspicion.random
            self.outcome.num_leaves_before_first = self.suspicion.num_leaves
            return
        if self.outcome.first is None:
            self.outcome.first = self.parameters.verdict()
        if self.suspicion is not None and self.outcome.first is None:
            self.outcome.operators = self.outcome.operators.changed(_regrouped)

    def take(self, pair: Pair) -> None:
        """Judge the next pair."""
        if self.memory.scaling.differs:
            self._note_unscaling(pair)
        if self._is_silent(pair.reference) and self._is_silent(pair.target):
            return
        if pair.reference is None or pair.target is None:
            self._alone(pair)
        else:
            self._pair(pair, pair.reference, pair.target)

    def _note_unscaling(self, pair: Pair) -> None:
        for call, side in ((pair.reference, "reference"), (pair.target, "target")):
            if call is not None and self.memory.scaling.takes_out(call):
                self.memory.scaling.note(call, side)  # type: ignore[arg-type]  # mypy widens the literals to str

    def _is_silent(self, call: Call | None) -> bool:
        """Return whether the call is not judged: there is none, or it is an optimizer's operator that has no values or
        works on gradients that differ by a loss scale. The rows of the parameters hold what it did."""
        if call is None:
            return True
        if call.row.phase != "optimizer" or call.row.kind != "op":
            return False
        tensors = (*call.inputs.values(), *call.outputs.values())
        return self.memory.scaling.differs or all(tensor.num_nan is None for tensor in tensors)

    def _alone(self, pair: Pair) -> None:
        call = pair.reference or pair.target
        assert call is not None
        if call.row.kind != "parameter":
            side: Side = "target" if pair.reference is None else "reference"
            self.operators.alone(call, side, certain=pair.certain)
            if self.suspicion is not None and pair.target is None:
                self.suspicion.hand_on(call)
        if pair.region:
            return  # inside a region that is compared at its border
        outcome = self.outcome
        alone = outcome.unmatched_target if pair.reference is None else outcome.unmatched_reference
        alone.append(unmatched(call))

    def _pair(self, pair: Pair, reference: Call, target: Call) -> None:
        agreements = None if pair.region or self.suspicion is not None else self.operators.agreements
        if agreements is not None and (agreement := agreements.of(reference, target)):
            self.kept.append(agreement)
            return
        judge = self.parameters if reference.row.kind == "parameter" else self.operators
        judged = judge.pair(reference, target)
        if pair.region:
            judged.diff = _of_region(judged.diff, pair)
        outcome, diff = self.outcome, judged.diff
        if judged.earlier is not None and outcome.first is None:
            outcome.first = judged.earlier
        outcome.leaves.extend(judged.inputs.leaves)
        if outcome.first is None:
            outcome.num_leaves_before_first = len(outcome.leaves)
        if self.suspicion is not None:
            self.suspicion.see(reference, diff)
        differs = diff.status == "diverge" and outcome.first is None and not self._leaves_explain(judged)
        if differs and not self._suspects(reference, judged):
            diff = self._blamed(judged)
        if diff.status == "random":
            _note_random(outcome, diff)
        if outcome.nonfinite is None and judged.nonfinite:
            outcome.nonfinite = diff
        self.kept.append(diff)

    def _leaves_explain(self, judged: Judgement) -> bool:
        """Return whether values from outside the step explain the difference: any of them in the first step, later
        those that differ by more than training on two devices makes them drift."""
        return any(self.memory.is_first_step or not leaf.drifted for leaf in judged.inputs.leaves)

    def _suspects(self, reference: Call, judged: Judgement) -> bool:
        """Return whether the divergence may be one of order only; the first such is kept until the step is over."""
        if judged.inputs.out_of_line is None or reference.row.kind != "op":
            return False
        blamed = blame(judged, self.of_reference)
        if blamed.status != "diverge":
            return False
        if self.suspicion is None or not self.suspicion.open:
            read = reference.inputs.get(judged.inputs.out_of_line[0])
            self.suspicion = Suspicion(
                blamed,
                len(self.outcome.leaves),
                0 if read is None else read.storage,
                self.outcome.random,
                needs_reader=reference.operator in EXACT,
            )
            self.suspicion.begin(reference)
        return True

    def _blamed(self, judged: Judgement) -> OperatorDiff:
        """Note the divergence, of the pair or of calls before it; return what is left to say of the pair."""
        outcome, diff = self.outcome, judged.diff
        blamed = blame(judged, self.of_reference)
        if blamed is not diff:
            self.kept.append(blamed)
            diff = replace(diff, status="inherited", note=f"the difference arises in {blamed.name}, just before")
        if blamed.status == "diverge":
            outcome.first = blamed
        else:
            _note_random(outcome, blamed)
        return diff


def _regrouped(diff: OperatorDiff) -> OperatorDiff:
    """Return a comparison of a step in which no difference lasts."""
    if diff.status != "diverge":
        return diff
    return replace(diff, status="inherited", note="part of a calculation that the runs group in another order")


def _of_region(diff: OperatorDiff, pair: Pair) -> OperatorDiff:
    """Return the judgement of a region's result in words of the region: random where it drew other numbers."""
    status: OperatorStatus = "random" if diff.status == "diverge" and drew_others(*pair.members) else diff.status
    return replace(diff, status=status, note="; ".join(filter(None, (diff.note, pair.region))))


def _note_random(outcome: StepOutcome, diff: OperatorDiff) -> None:
    if outcome.random is None and outcome.first is None and _draws_values(diff):
        outcome.random = diff


def _draws_values(diff: OperatorDiff) -> bool:
    """Return whether the drawn values are data. A single number is a seed for a sampler or a worker."""
    return any(math.prod(output.shape) > 1 for output in diff.outputs)
