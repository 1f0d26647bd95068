"""Judges the update of a parameter, given the difference of the gradient that the optimizer read.

The update of a parameter may differ by

    SGD        rate · ‖difference of the gradient‖ · 1 / (1 - momentum)
    others     rate · √n · spread(δ)           spread(δ) = min(2, 4·√δ)

n is the number of elements and δ the relative noise of the gradient, the greatest of all steps so far
(moments remember it). Adam and its kin divide the gradient by its own size, so that an element near zero
makes a full step whose sign is noise: of normally distributed gradients a share of about δ lies below the
noise δ, and the mean square of the difference of the steps is rate² · (4 · 0.8·δ + 2 · 0.8·δ), about 5·δ·rate². The
factor 4 leaves a margin of nearly 2 for the root of it. Added are what the parameter differed by before and
one rounding of the parameter itself.

Gradients need not be distributed so: those of the keys' bias in attention, or of a bias before a batch norm, are
nothing but noise, and any step of these parameters is right. So with noisy gradients one parameter beyond the bound is
no proof; the optimizer is named when it is the rule, `SHARE` of all parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from jumar.comparison.judge.flow import Flow
from jumar.comparison.judge.judge import Judgement
from jumar.comparison.judge.memory import Group, Memory, OptimizerPair
from jumar.comparison.judge.outputs import blank_diff
from jumar.comparison.judge.reading import Inputs, input_out_of_line
from jumar.comparison.measure.distances import Measure, relative
from jumar.comparison.measure.loading import Load
from jumar.comparison.measure.records import tensor_diff
from jumar.comparison.measure.tolerance import FLOAT32_EPSILON, epsilon
from jumar.comparison.model.calls import Call
from jumar.comparison.model.results import OperatorDiff, OperatorStatus, TensorDiff

LINEAR = frozenset({"SGD", "ASGD"})
"""Optimizers whose update is proportional to the gradient."""

GREATEST_MOMENTUM = 10.0
"""Of SGD: 1 / (1 - momentum) with the usual 0.9."""

SPREAD, OPPOSITE = 4.0, 2.0
STEP = 2.0
"""An element's step in multiples of the learning rate; bias correction and changing gradients move it by less."""

RARE = 1e-4
"""Expected number of elements with a gradient below its noise from which one of them is allowed for."""

ARITHMETIC = 64.0
"""Epsilons of the update that the optimizer's own arithmetic may be off by."""

SHARE = 0.5
"""Share of the parameters with noisy gradients beyond their bound from which the optimizer is at fault."""

CLOSE = 16.0
"""Epsilons of its own norm by which a parameter may differ where its learning rate is not known."""

NO_RATE = "the learning rate was not recorded"
"""Why a parameter that differs is not judged."""

GRADIENT, VALUE = "input.grad", "output.0"


@dataclass(frozen=True, slots=True)
class Update:
    """A parameter that a call of an optimizer has updated within the step, as its row at the end of the step tells."""

    reference: Call
    target: Call
    """The parameter's rows."""
    optimizer: OptimizerPair
    group: Group
    is_last: bool
    """Whether no later call updates it in this step; the row keeps the gradient of that one."""
    before: float
    """Absolute difference of an element before the update."""


class ParameterJudge:
    """Judges the `parameter` rows of one step."""

    def __init__(self, flow: Flow, memory: Memory, load: Load, strict: float) -> None:
        self._flow, self._memory, self._load, self._strict = flow, memory, load, strict
        self._num_noisy = 0
        self._beyond: list[OperatorDiff] = []
        self._read: dict[int, OperatorDiff] = {}
        """What was said of a parameter whose new value was read within the step, by the identity of its call."""

    def verdict(self) -> OperatorDiff | None:
        """Return the optimizer's divergence when most parameters with noisy gradients are beyond their bounds."""
        return self._beyond[0] if self._beyond and len(self._beyond) > SHARE * self._num_noisy else None

    def pair(self, reference: Call, target: Call) -> Judgement:
        """Judge one parameter: the gradient that was read, then the value that was left."""
        load = self._load and self._load(reference, target)
        inputs, gradient = self._gradient(reference, target, load)
        value = self._measured(reference, target, VALUE, "outputs", load)
        if value is not None and value.known and not value.nonfinite_differs:
            self._memory.note_value(reference.path, value.relative_noise())
        diff = self._read.get(id(reference))
        if diff is None:
            diff = self._judged(reference, target, inputs, gradient, value)
        return Judgement(diff, inputs, nonfinite=any(tensor.nonfinite_differs for tensor in diff.outputs))

    def read(self, update: Update, name: str, reader: tuple[Call, Call]) -> OperatorDiff | None:
        """Judge the value that an update left, which a call of the same step reads; return a divergence."""
        first, second = (call.inputs[name] for call in reader)
        reference, target = update.reference, update.target
        if first.shape != reference.outputs[VALUE].shape or second.shape != first.shape:
            return None
        value = self._memory.scaling.measure_either(first, second, self._load and self._load(*reader))
        if not value.known or id(reference) in self._read:
            return None
        if not update.is_last:  # the gradient of an earlier update was not kept
            if update.group.differences and self._is_visible(value, update.before):
                diff = self._diff(reference, target, Inputs(), "diverge", value, error=value.error())
                return self._named(diff, update.optimizer, update.group)
            return None
        inputs, gradient = self._gradient(reference, target, self._load and self._load(reference, target))
        diff = self._judged(reference, target, inputs, gradient, value, update.before)
        self._read[id(reference)] = diff
        return diff if diff.status == "diverge" else None

    def _gradient(self, reference: Call, target: Call, load: Any) -> tuple[Inputs, Measure | None]:
        inputs = Inputs()
        gradient = self._measured(reference, target, GRADIENT, "inputs", load)
        if gradient is not None and gradient.known:
            inputs.measures.append((GRADIENT, gradient, None))
            inputs.noise = gradient.relative_noise()
            inputs.worst = gradient.error()
            inputs.suspects = tuple(call for call in self._flow.suspects(gradient) if call.row.phase != "optimizer")
            inputs.out_of_line = self._out_of_line(gradient)
        return inputs, gradient

    def _measured(self, reference: Call, target: Call, name: str, side: str, load: Any) -> Measure | None:
        first, second = getattr(reference, side).get(name), getattr(target, side).get(name)
        return None if first is None or second is None else self._memory.scaling.measure_either(first, second, load)

    def _out_of_line(self, gradient: Measure) -> tuple[str, float, float] | None:
        """Return name, error and tolerance when the operators that made the gradient do not account for it."""
        found = input_out_of_line(self._flow, gradient, self._strict)
        return found and (GRADIENT, *found)

    def _judged(
        self,
        reference: Call,
        target: Call,
        inputs: Inputs,
        gradient: Measure | None,
        value: Measure | None,
        before: float | None = None,
    ) -> OperatorDiff:
        """Judge a value. `before` is the absolute difference of an element that there was before the update; None to
        ask the flow of values."""
        if inputs.out_of_line is not None:
            note = "the gradient that the optimizer reads differs, though the operators that made it agree"
            return self._diff(reference, target, inputs, "diverge", gradient, note=note)
        if value is None or not value.known:
            return self._diff(reference, target, inputs, "not-compared", value, note="the value was not recorded")
        before = self._flow.known_noise(value) if before is None else before
        allowed = self._allowed(reference, inputs, gradient, value, before)
        if allowed is None or value.equal:
            is_close = value.equal or value.l2_error <= self._strict * self._of_rounding(value, before)
            status: OperatorStatus = "agree" if is_close else "not-compared"
            note = "" if is_close else NO_RATE
            return self._diff(reference, target, inputs, status, value, note=note)
        error, tolerance = relative(value.l2_error, value.l2), self._strict * relative(allowed, value.l2)
        if value.nonfinite_differs:
            error = math.inf
        other_settings = bool(self._memory.optimizers.of(reference.row)[1].differences) and self._is_visible(
            value, before
        )
        is_beyond = error > tolerance
        differs = other_settings or (is_beyond and (inputs.noise == 0.0 or math.isinf(error)))
        diff = self._diff(
            reference,
            target,
            inputs,
            "diverge" if differs else "inherited",
            value,
            error=error,
            tolerance=tolerance,
            tolerance_origin="the update's size and the noise of its gradient",
        )
        if differs:
            return self._of_optimizer(reference, diff)
        self._num_noisy += inputs.noise > 0.0
        if is_beyond:
            self._beyond.append(self._of_optimizer(reference, replace(diff, status="diverge")))
        return diff

    @staticmethod
    def _of_rounding(value: Measure, before: float) -> float:
        """Return the L2 distance that rounding explains where nothing is known of the update."""
        eps = epsilon(value.reference.dtype, value.target.dtype)
        return 2.0 * before * math.sqrt(value.num) + CLOSE * eps * value.l2

    def _allowed(
        self, reference: Call, inputs: Inputs, gradient: Measure | None, value: Measure, before: float
    ) -> float | None:
        """Return the L2 distance of the values that is explained; None when the learning rate is not known."""
        (optimizer, group), root = self._memory.optimizers.of(reference.row), math.sqrt(value.num)
        if group.rate is None:
            return None
        noise = inputs.noise if gradient is not None and gradient.known else OPPOSITE
        noise = self._memory.add_gradient_noise((reference.path, reference.row.name), noise)
        if group.epsilon_reach and gradient is not None and gradient.known and gradient.rms > 0:
            noise += (
                group.epsilon_reach / gradient.rms
            )  # elements so small make a step of another size, as noisy ones do
        before *= root
        rounding = (epsilon(value.reference.dtype, value.target.dtype) + FLOAT32_EPSILON) * value.l2
        if optimizer.names[0] in LINEAR and gradient is not None and gradient.known:
            spread = group.rate * gradient.l2 * GREATEST_MOMENTUM
            return 2.0 * before + rounding + spread * (noise + ARITHMETIC * FLOAT32_EPSILON)
        spread = min(OPPOSITE, SPREAD * math.sqrt(noise)) + ARITHMETIC * FLOAT32_EPSILON
        single = STEP * OPPOSITE * group.rate if noise * value.num > RARE else 0.0
        return 2.0 * before + rounding + STEP * group.rate * root * spread + single

    def _is_visible(self, value: Measure, before: float) -> bool:
        """Return whether the values have parted by more than rounding; other settings then are the cause."""
        before *= math.sqrt(value.num)
        eps = epsilon(value.reference.dtype, value.target.dtype)
        return value.l2_error > self._strict * (2.0 * before + eps * value.l2)

    def _diff(
        self,
        reference: Call,
        target: Call,
        inputs: Inputs,
        status: OperatorStatus,
        shown: Measure | None,
        **figures: Any,
    ) -> OperatorDiff:
        outputs: tuple[TensorDiff, ...] = ()
        if shown is not None:
            outputs = (tensor_diff(GRADIENT if inputs.out_of_line else VALUE, shown),)
        return blank_diff(reference, target, inputs, status=status, outputs=outputs, **figures)

    def _of_optimizer(self, reference: Call, diff: OperatorDiff) -> OperatorDiff:
        """Name the optimizer: its step is what turned gradients that agree into values that do not."""
        return self._named(diff, *self._memory.optimizers.of(reference.row))

    @staticmethod
    def _named(diff: OperatorDiff, optimizer: OptimizerPair, group: Group) -> OperatorDiff:
        parameter = ".".join(part for part in (diff.module_path, diff.reference_name) if part)
        everywhere = bool(group.differences)
        return replace(
            diff,
            kind="optimizer",
            module_path="" if everywhere else diff.module_path,
            module_type="" if everywhere else diff.module_type,
            reference_name=optimizer.names[0],
            target_name=optimizer.names[1],
            reference_seq=optimizer.seqs[0],
            target_seq=optimizer.seqs[1],
            occurrence=optimizer.occurrence,
            source=optimizer.sources[1] or diff.source,
            reference_source=optimizer.sources[0] or diff.reference_source,
            arguments=group.differences,
            note=f"seen in {parameter}, whose gradient agrees",
        )
