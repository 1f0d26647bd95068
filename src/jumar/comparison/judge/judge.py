"""Judges one pair of calls: `Judge` tells rounding and inherited errors from a divergence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jumar.comparison.judge.agreement import Agreements
from jumar.comparison.judge.flow import UNSEEN_GROWTH, Flow, Side
from jumar.comparison.judge.loss_scaling import Measures
from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.outputs import Output, blank_diff, compared_diff, differing_arguments, judge_outputs, unseen
from jumar.comparison.judge.reading import Inputs, read_inputs
from jumar.comparison.measure.loading import Load, Loaders
from jumar.comparison.measure.records import tensor_diff
from jumar.comparison.measure.tolerance import epsilon
from jumar.comparison.model.calls import Call, paired, same_operator
from jumar.comparison.model.kinds import (
    ADOPTING,
    OPAQUE,
    REGION,
    SILENT_WRITES,
    SINGLE_LAYERS,
    TRANSPORT,
    UNINITIALISED,
    VIEWS,
)
from jumar.comparison.model.results import OperatorDiff, TensorDiff

LEFT_BY_CHANCE = 4.0
"""Multiples of its inputs' errors by which a running statistic may be off."""

OF_DRIFT = 16.0
"""By how much a module may enlarge the difference that the step before left in its parameters. Operators read their
parameters, modules do not."""


@dataclass(slots=True)
class Judgement:
    """The outcome for one pair, with what the search needs beyond the public record."""

    diff: OperatorDiff
    inputs: Inputs
    earlier: OperatorDiff | None = None
    """A call of the step before whose divergence only shows in what this one reads."""
    nonfinite: bool = False
    """An output has more NaN or Inf elements on one side."""


class Judge:
    """Judges the pairs of one step in order of execution; keeps the flow of values between them."""

    def __init__(
        self, flow: Flow, parameters: frozenset[int], load: Load, memory: Memory, tolerance_scale: float = 1.0
    ) -> None:
        self._flow = flow
        self._parameters = parameters
        self._load = load
        self._memory = memory
        self._strict = tolerance_scale
        self._measures = Measures(memory.scaling)
        self.agreements = Agreements(flow, memory, self._measures, tolerance_scale) if load is None else None
        """Recognises pairs that surely agree; None where whole tensors are compared."""

    def alone(self, call: Call, side: Side, *, certain: bool = False) -> None:
        """Take note of a call that only one side has; `certain` when the other side has nothing in its stead."""
        self._flow.not_judged(call, side, growth=1.0 if certain else UNSEEN_GROWTH)
        self._memory.scaling.note(call, side)

    def pair(self, reference: Call, target: Call) -> Judgement:
        """Judge a pair of calls."""
        if self._memory.scaling.differs and self._memory.scaling.brings_in(reference, target):
            self._note_scales(reference, target)
            judgement = self._not_compared(reference, target, Inputs(), "the losses are scaled by different factors")
            others = tuple(a for a in judgement.diff.arguments if not self._memory.scaling.are_scales(a))
            judgement.diff = replace(judgement.diff, arguments=others)
            return judgement
        load = self._load and self._load(reference, target)
        measured = self._measures.take
        writes_silently = reference.operator in SILENT_WRITES
        earlier = self._written_before(reference, target, load) if writes_silently else None
        inputs = read_inputs(reference, target, load, self._flow, self._parameters, self._strict, measured)
        if reference.row.kind == "module":
            inputs.noise += OF_DRIFT * self._memory.drift(reference.path)
        if reference.operator == REGION:
            _trust_only_certain(inputs, reference)
        elif reference.operator in TRANSPORT:
            inputs.noise = max(inputs.noise, _of_statistics(inputs))
        self._note_scales(reference, target)
        other = _other_calculation(reference, target)
        reason = self._reason_not_to(reference, target) or other
        if not reason and inputs.out_of_line is not None and reference.operator in TRANSPORT:
            inputs.out_of_line = None
            reason = "it shows other values; the calls that calculate with them are compared"
        if reason:
            judgement = self._not_compared(reference, target, inputs, reason)
            if other:  # a pair by name alone: its arguments are of two calculations
                judgement.diff = replace(judgement.diff, arguments=())
            return judgement
        undefined = OPAQUE.get(reference.operator, ()) or OPAQUE.get(target.operator, ())
        found = [
            (name, measured(a, b, load)) for name, a, b in paired(reference, target, "outputs") if name not in undefined
        ]
        if not any(m.known and m.num for _, m in found):
            reason = found[0][1].note if found else "no output was recorded"
            judgement = self._not_compared(reference, target, inputs, reason, [tensor_diff(n, m) for n, m in found])
        else:
            judgement = self._compared(reference, target, inputs, found)
        for name in undefined:  # last: an output that was compared may lie in the same memory
            self._flow.uninitialised(reference, target, name)
        judgement.earlier = earlier
        if writes_silently:
            self._remember_written(reference, judgement, load, target)
        return judgement

    def _note_scales(self, reference: Call, target: Call) -> None:
        """Follow the loss scales through the pair, after its inputs and before its outputs are measured."""
        if not self._memory.scaling.differs:
            return
        self._memory.scaling.note(reference, "reference")
        self._memory.scaling.note(target, "target")

    def _reason_not_to(self, reference: Call, target: Call) -> str:
        """Return why the outputs mean nothing; empty when they do."""
        if reference.operator in UNINITIALISED:
            return "the output is uninitialised memory"
        if reference.operator in ADOPTING:
            return "the output is memory from elsewhere"
        if self._shows_garbage(reference, "reference") or self._shows_garbage(target, "target"):
            return "the output is a view of uninitialised memory"
        return ""

    def _written_before(self, reference: Call, target: Call, load: Loaders) -> OperatorDiff | None:
        """Return the divergence of the call that wrote last what this one reads; None when it agrees."""
        for name in SILENT_WRITES.get(reference.operator, ()):
            written = self._memory.recall(reference, name)
            if written is None or name not in reference.inputs or name not in target.inputs:
                continue
            m = self._memory.scaling.measure(reference.inputs[name], target.inputs[name], load)
            if m.known and m.error() > self._strict * written.allowed:
                return replace(
                    written.diff,
                    status="diverge",
                    error=m.error(),
                    tolerance=self._strict * written.allowed,
                    tolerance_origin="what the inputs of the call explain",
                    outputs=(tensor_diff(name, m),),
                    note=f"the running statistics it left ({name}) differ when step {reference.row.step} reads them",
                )
        return None

    def _remember_written(self, reference: Call, judgement: Judgement, load: Loaders, target: Call) -> None:
        for name in SILENT_WRITES.get(reference.operator, ()):
            if name in reference.inputs and name in target.inputs:
                m = self._memory.scaling.measure(reference.inputs[name], target.inputs[name], load)
                eps = epsilon(m.reference.dtype, m.target.dtype)
                before = m.error() if m.known else 0.0
                allowed = 64.0 * eps + LEFT_BY_CHANCE * (judgement.inputs.noise + before)
                self._memory.remember(reference, name, judgement.diff, allowed)
                self._flow.wrote_silently(reference, target, name, self._strict * allowed)

    def _shows_garbage(self, call: Call, side: Side) -> bool:
        """Return whether a view is taken of memory that nothing has written to, e.g. of a bucket of gradients."""
        return self._flow.has_garbage and call.operator in VIEWS and self._flow.reads_garbage(call, "input.0", side)

    def _not_compared(
        self, reference: Call, target: Call, inputs: Inputs, reason: str, outputs: Iterable[TensorDiff] = ()
    ) -> Judgement:
        self._flow.not_judged(reference, "reference")
        self._flow.not_judged(target, "target")
        other_shape = reason.startswith("shapes differ") and _should_have_one_shape(reference, target)
        diverges = inputs.out_of_line is not None or other_shape
        diff = blank_diff(
            reference,
            target,
            inputs,
            status="diverge" if diverges else "not-compared",
            outputs=tuple(outputs),
            arguments=differing_arguments(reference, target),
            note=(inputs.complaint if inputs.out_of_line else "") or reason,
        )
        return Judgement(diff, inputs)

    def _compared(self, reference: Call, target: Call, inputs: Inputs, found: Sequence[Output]) -> Judgement:
        judged = judge_outputs(reference, inputs, found, self._memory, self._strict)
        for (_, m), output in zip(found, judged, strict=True):
            if output is None:
                self._flow.suspect(m, reference)
            else:
                hidden = unseen(m, inputs.suspects) if inputs.suspects else ()
                self._flow.judged(m, output[1], reference.inputs.values(), hidden)
        nonfinite = any(m.num_nonfinite != m.target_num_nonfinite for _, m in found)
        return Judgement(compared_diff(reference, target, inputs, found, judged), inputs, nonfinite=nonfinite)


def _of_statistics(inputs: Inputs) -> float:
    """Return by how much inputs may differ of which only statistics are known, and known to differ: by a rounding.

    What only moves values shows the whole difference, of which statistics show the least that it may be.
    """
    blind = [m for _, m, _ in inputs.measures if m.known and not m.equal and m.evidence == "statistics"]
    return max((epsilon(m.reference.dtype, m.target.dtype) for m in blind), default=0.0)


def _trust_only_certain(inputs: Inputs, region: Call) -> None:
    """Take back what the inputs of a region say where several have one shape: which belong together is a guess."""
    inputs.out_of_line = None
    shapes = Counter(tensor.shape for tensor in region.inputs.values())
    inputs.leaves = [leaf for leaf in inputs.leaves if shapes[leaf.diff.shape] == 1]


def _other_calculation(reference: Call, target: Call) -> str:
    """Return that a pair reads inputs of other sizes although its results have one shape; empty otherwise.

    A sum over all time steps and one over a single step have results of one shape, for example: these calls are a pair
    by name alone, or the cause is what gave the inputs another size.
    """
    if reference.row.kind != "op" or reference.operator == REGION:
        return ""
    others = target.inputs
    if all(name in others and others[name].shape == tensor.shape for name, tensor in reference.inputs.items()):
        return ""
    pairs = [(a.shape, b.shape) for _, a, b in paired(reference, target, "inputs") if a.shape != b.shape]
    sizes = any(math.prod(a) != math.prod(b) for a, b in pairs)
    return "it reads tensors of another size" if sizes or (pairs and reference.layout_only) else ""


def _should_have_one_shape(reference: Call, target: Call) -> bool:
    """Return whether the pair is one calculation on inputs of one shape each; else it may be a pair by name alone."""
    if reference.layer in SINGLE_LAYERS and target.layer == reference.layer:
        return all(a.shape == b.shape for _, a, b in paired(reference, target, "inputs"))
    if reference.row.kind != "op" or reference.layout_only or not same_operator(reference, target):
        return False
    if reference.operator == REGION:
        return False  # each side may hold its result in the shape of its own calculation
    return all(a.shape == b.shape for _, a, b in paired(reference, target, "inputs"))
