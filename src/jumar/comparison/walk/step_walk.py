"""Compares one step of two runs call by call, in the reference's order of execution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from jumar.comparison.align.align import AlignedStep, Pair
from jumar.comparison.judge.flow import Flow, Side
from jumar.comparison.judge.judge import Judge, Judgement
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.parameter_updates import ParameterJudge
from jumar.comparison.measure.leaves import Leaf, leaf_of, parameter_storages
from jumar.comparison.measure.loading import Load
from jumar.comparison.measure.records import Operators, Postponed
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import EXACT
from jumar.comparison.model.results import OperatorDiff, OperatorStatus, UnmatchedCall

if TYPE_CHECKING:
    from jumar.comparison.walk.blame import Suspicion
    from jumar.comparison.walk.shapes import Shapes
    from jumar.comparison.walk.updates import Updates


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
    unseen_regions: list[OperatorDiff] = field(default_factory=list)
    """Calculations that the sides make with other calls, whose result could not be compared."""
    kind: Literal["op", "module", "none"] = "none"
    foreign_operators: bool = False
    """The runs' operators share no name: modules were compared."""


def compare_step(step: AlignedStep, load: Load, *, tolerance_scale: float, memory: Memory | None = None) -> StepOutcome:
    """Compare the calls of one step and rank, pair by pair in the reference's order of execution.

    `memory` is what the rank's steps before have left; it must have begun this step.
    """
    memory = memory or Memory()
    outcome = StepOutcome(kind=step.kind, foreign_operators=step.foreign_operators)
    if step.kind == "none":
        return outcome
    flow = Flow(step.reference, step.target)
    flow.enabled = flow.enabled and step.kind == "op"
    parameters = parameter_storages(step.reference)
    walk = _Walk(
        outcome,
        Judge(flow, parameters, load, memory, tolerance_scale),
        ParameterJudge(flow, memory, load, tolerance_scale),
        memory,
        {id(call) for call in step.reference},
        _updates(step, memory, flow),
        step.explained,
        step.pairs,
        parameters,
        _given_from_outside(step) if step.kind == "module" else frozenset(),
    )
    for pair in step.pairs:
        walk.take(pair)
    walk.end()
    if outcome.first is not None and memory.optimizers.pairs:
        from jumar.comparison.walk.updates import traced_to_optimizer, traced_to_write

        outcome.first = traced_to_write(traced_to_optimizer(outcome.first, memory.optimizers, step.reference), step)
    return outcome


def _updates(step: AlignedStep, memory: Memory, flow: Flow) -> Updates | None:
    """Return the updates of the step; None where calculations do not go on after the first optimizer's."""
    first = min((pair.seqs[0] or 0 for pair in memory.optimizers.pairs), default=None)
    if first is None or not any(call.row.seq > first and call.row.phase != "optimizer" for call in step.reference):
        return None
    from jumar.comparison.walk.updates import Updates

    return Updates(step.pairs, memory.optimizers, flow)


def _given_from_outside(step: AlignedStep) -> frozenset[int]:
    """Return the storages that outermost modules of the reference's forward pass read and no module made."""
    forward = [call.row for call in step.reference if call.row.kind == "module" and call.row.phase == "forward"]
    made = {tensor.storage for row in forward for tensor in row.outputs}
    # the model has an empty path, any other outermost module is called after its class
    outermost = [row for row in forward if row.module_path.partition("#")[0] in {"", row.module_type}]
    return frozenset({tensor.storage for row in outermost for tensor in row.inputs} - made - {0})


@dataclass(slots=True)
class _Walk:
    """The walk through the pairs of one step."""

    outcome: StepOutcome
    operators: Judge
    parameters: ParameterJudge
    memory: Memory
    of_reference: set[int]
    """Identities of the reference's calls."""
    updates: Updates | None
    """What optimizers write that calls of the step read."""
    explained: Mapping[int, str]
    """Why calls without a partner are no difference between the programs, by their identities."""
    pairs: Sequence[Pair]
    parameter_storages: frozenset[int]
    outside: frozenset[int] = frozenset()
    """Where modules are compared: storages that the program gives to outermost modules, until they are compared."""
    shapes: Shapes | None = None
    """Tensors of other sizes; None while there are none."""
    suspicion: Suspicion | None = None
    kept: list[OperatorDiff | Postponed] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    """Regions of which a result was compared, by the identity of their members."""
    unseen: dict[int, OperatorDiff] = field(default_factory=dict)
    """Regions with a result that could not be compared."""

    def end(self) -> None:
        """Decide what had to wait for the end of the step."""
        self.outcome.unseen_regions = [diff for region, diff in self.unseen.items() if region not in self.seen]
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
        from jumar.comparison.align.structure import unmatched

        outcome = self.outcome
        alone = outcome.unmatched_target if pair.reference is None else outcome.unmatched_reference
        alone.append(unmatched(call, self.explained.get(id(call), "")))

    def _pair(self, pair: Pair, reference: Call, target: Call) -> None:
        if self.updates is not None:
            self._judge_updates(self.updates, reference, target)
        agreements = None if pair.region or self.suspicion is not None else self.operators.agreements
        if agreements is not None and (agreement := agreements.of(reference, target)):
            self.kept.append(agreement)
            return
        judge = self.parameters if reference.row.kind == "parameter" else self.operators
        judged = judge.pair(reference, target)
        if not pair.region and _sizes_differ(reference, target):
            self._note_sizes(reference, target, judged)
        if pair.region:
            judged.diff = _of_region(judged.diff, pair)
        outcome, diff = self.outcome, judged.diff
        if pair.region:
            self._note_border(pair, diff)
        if judged.earlier is not None and outcome.first is None:
            outcome.first = judged.earlier
        if self.outside and reference.row.kind == "module":
            judged.inputs.leaves.extend(self._given_leaves(reference, judged))
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

    def _given_leaves(self, call: Call, judged: Judgement) -> Iterator[Leaf]:
        """Yield what a module was given from outside of all modules and differs between the runs; each once."""
        for name, found, _ in judged.inputs.measures:
            if found.known and found.reference.storage in self.outside:
                self.outside = self.outside - {found.reference.storage}
                leaf = leaf_of(call, name, found, self.parameter_storages)
                if leaf is not None:
                    yield leaf

    def _note_sizes(self, reference: Call, target: Call, judged: Judgement) -> None:
        """Follow tensors of other sizes; name where they come from once a call calculates with them."""
        if self.shapes is None:
            from jumar.comparison.walk.shapes import Shapes

            self.shapes = Shapes(self.pairs, self.parameter_storages)
        origin = self.shapes.see(reference, target, judged)
        if origin is None or self.outcome.first is not None:
            return
        if origin.leaf is not None and origin.leaf not in self.outcome.leaves:
            self.outcome.leaves.append(origin.leaf)
        elif origin.diff is not None:
            self.outcome.num_leaves_before_first = len(self.outcome.leaves)
            self.outcome.first = replace(origin.diff, status="diverge")

    def _judge_updates(self, updates: Updates, reference: Call, target: Call) -> None:
        for update, name in updates.read_by(reference, target):
            found = self.parameters.read(update, name, (reference, target))
            if found is not None and self.outcome.first is None:
                self.outcome.first = found

    def _note_border(self, pair: Pair, diff: OperatorDiff) -> None:
        """Note whether a result of a region could be compared."""
        if diff.status == "not-compared":
            self.unseen.setdefault(id(pair.members), diff)
        else:
            self.seen.add(id(pair.members))

    def _leaves_explain(self, judged: Judgement) -> bool:
        """Return whether values from outside the step explain the difference: any of them in the first step, later
        those that differ by more than training on two devices makes them drift."""
        return any(self.memory.is_first_step or not leaf.drifted for leaf in judged.inputs.leaves)

    def _suspects(self, reference: Call, judged: Judgement) -> bool:
        """Return whether the divergence may be one of order only; the first such is kept until the step is over."""
        if judged.inputs.out_of_line is None or reference.row.kind != "op":
            return False
        from jumar.comparison.walk.blame import blame

        blamed = blame(judged, self.of_reference)
        if blamed.status != "diverge":
            return False
        if self.suspicion is None or not self.suspicion.open:
            read = reference.inputs.get(judged.inputs.out_of_line[0])
            from jumar.comparison.walk.blame import Suspicion

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
        from jumar.comparison.walk.blame import blame

        blamed = blame(judged, self.of_reference)
        if blamed is not diff:
            self.kept.append(blamed)
            diff = replace(diff, status="inherited", note=f"the difference arises in {blamed.name}, just before")
        if blamed.status == "diverge":
            outcome.first = blamed
        else:
            _note_random(outcome, blamed)
        return diff


def _sizes_differ(reference: Call, target: Call) -> bool:
    """Return whether a tensor of the pair has another shape in the target."""
    for first, second in ((reference.inputs, target.inputs), (reference.outputs, target.outputs)):
        for name, tensor in first.items():
            other = second.get(name)
            if other is not None and other.shape != tensor.shape:
                return True
    return False


def _regrouped(diff: OperatorDiff) -> OperatorDiff:
    """Return a comparison of a step in which no difference lasts."""
    if diff.status != "diverge":
        return diff
    return replace(diff, status="inherited", note="part of a calculation that the runs group in another order")


def _of_region(diff: OperatorDiff, pair: Pair) -> OperatorDiff:
    """Return the judgement of a region's result in words of the region: random where it drew other numbers.

    The calls that leave the result may be of different calculations, so that their arguments say nothing of a result
    that agrees.
    """
    from jumar.comparison.walk.blame import drew_others

    status: OperatorStatus = "random" if diff.status == "diverge" and drew_others(*pair.members) else diff.status
    if status == "diverge" and not pair.certain:
        # NOTE: in the backward of a layer that is taken apart the terms of a sum have one size, and which of them the
        # other side's result stands for is a guess. Their sums, the gradients, are compared.
        note = f"one of several results of this size; {pair.region}"
        return replace(diff, status="not-compared", arguments=(), note=note)
    arguments = diff.arguments if status == "diverge" else ()
    return replace(diff, status=status, arguments=arguments, note="; ".join(filter(None, (diff.note, pair.region))))


def _note_random(outcome: StepOutcome, diff: OperatorDiff) -> None:
    if outcome.random is None and outcome.first is None and _draws_values(diff):
        outcome.random = diff


def _draws_values(diff: OperatorDiff) -> bool:
    """Return whether the drawn values are data. A single number is a seed for a sampler or a worker."""
    return any(math.prod(output.shape) > 1 for output in diff.outputs)
