"""Judges one pair of calls: does the output differ by more than rounding and its inputs explain?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import ADOPTING, MOVING, RANDOM, SHUFFLING, UNINITIALISED, VIEWS
from jumar.accuracy.flow import Flow, Side
from jumar.accuracy.measure import Loader, Measure, measure, tensor_diff
from jumar.accuracy.pairing import argument_differences, paired, same_operator
from jumar.accuracy.reading import Inputs, read_inputs
from jumar.accuracy.results import ArgumentDiff, OperatorDiff, OperatorStatus, TensorDiff
from jumar.accuracy.scales import scale
from jumar.accuracy.tolerance import STATISTICS_FLOOR, ErrorModel, epsilon, error_model, origin, rounding

CHAOTIC, CHAOS = 0.5, 2.0
"""Noise of the inputs from which outputs are free to be anything: a relative error cannot exceed 2."""

Load = Callable[[Call, Call], tuple[Loader, Loader] | None]
"""Gives the loaders of the whole tensors of a pair, or None when only statistics were recorded."""


@dataclass(slots=True)
class Judgement:
    """The outcome for one pair, with what the search needs beyond the public record."""

    diff: OperatorDiff
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class _Output:
    """The judgement of one output."""

    error: float
    rounding: float
    tolerance: float
    origin: str

    @property
    def excess(self) -> float:
        """The error in tolerances; an infinite tolerance (the inputs hold NaN already) excuses everything."""
        if self.error == 0 or math.isinf(self.tolerance):
            return 0.0
        return self.error / self.tolerance if self.tolerance > 0 else math.inf


class Judge:
    """Judges the pairs of one step in order of execution; keeps the flow of values between them."""

    def __init__(self, flow: Flow, parameters: frozenset[int], load: Load, tolerance_scale: float = 1.0) -> None:
        self._flow = flow
        self._parameters = parameters
        self._load = load
        self._strict = tolerance_scale

    def alone(self, call: Call, side: Side) -> None:
        """Take note of a call that only one side has."""
        self._flow.not_judged(call, side)

    def pair(self, reference: Call, target: Call) -> Judgement:
        """Judge a pair of calls."""
        load = self._load(reference, target)
        inputs = read_inputs(reference, target, load, self._flow, self._parameters, self._strict)
        if reference.operator in UNINITIALISED:
            return self._not_compared(reference, target, inputs, "the output is uninitialised memory")
        if reference.operator in ADOPTING:
            return self._not_compared(reference, target, inputs, "the output is memory from elsewhere")
        if self._shows_garbage(reference, "reference") or self._shows_garbage(target, "target"):
            return self._not_compared(reference, target, inputs, "the output is a view of uninitialised memory")
        found = [(name, measure(a, b, load)) for name, a, b in paired(reference, target, "outputs")]
        if not any(m.known and m.num for _, m in found):
            reason = found[0][1].note if found else "no output was recorded"
            return self._not_compared(reference, target, inputs, reason, [tensor_diff(n, m) for n, m in found])
        return self._compared(reference, target, inputs, found)

    def _shows_garbage(self, call: Call, side: Side) -> bool:
        """Return whether a view is taken of memory that nothing has written to, e.g. of a bucket of gradients."""
        return call.operator in VIEWS and self._flow.reads_garbage(call, "input.0", side)

    def _not_compared(
        self, reference: Call, target: Call, inputs: Inputs, reason: str, outputs: Iterable[TensorDiff] = ()
    ) -> Judgement:
        self._flow.not_judged(reference, "reference")
        self._flow.not_judged(target, "target")
        is_one_operator = reference.row.kind == "op" and same_operator(reference, target)
        diverges = inputs.out_of_line is not None or (reason.startswith("shapes differ") and is_one_operator)
        diff = _diff(
            reference,
            target,
            inputs,
            status="diverge" if diverges else "not-compared",
            outputs=tuple(outputs),
            arguments=argument_differences(reference, target),
            note=inputs.complaint or reason,
        )
        return Judgement(diff, inputs)

    def _compared(
        self, reference: Call, target: Call, inputs: Inputs, found: Sequence[tuple[str, Measure]]
    ) -> Judgement:
        arguments = argument_differences(reference, target)
        model = error_model(reference)
        outputs = [self._output(reference, model, inputs, name, m) for name, m in found]
        worst = max((output for output in outputs if output is not None), key=lambda o: (o.excess, o.error))
        for side, call in (("reference", reference), ("target", target)):
            self._flow.wrote_silently(call, side)  # type: ignore[arg-type]  # mypy widens the literals to str
        diff = _diff(
            reference,
            target,
            inputs,
            status=_status(reference, inputs, found, worst, arguments),
            outputs=tuple(
                tensor_diff(name, m, output.error if output is not None else None)
                for (name, m), output in zip(found, outputs, strict=True)
            ),
            error=worst.error,
            tolerance=worst.tolerance,
            rounding=worst.rounding,
            tolerance_origin=worst.origin,
            arguments=arguments,
            note=inputs.complaint,
        )
        return Judgement(diff, inputs)

    def _output(self, call: Call, model: ErrorModel, inputs: Inputs, name: str, m: Measure) -> _Output | None:
        """Judge one output and note it in the flow; None when nothing is known of it."""
        if not m.known:
            self._flow.suspect(m, call)
            return None
        if m.equal:
            self._flow.judged(m, 0.0, call.inputs.values(), _unseen(m, inputs.suspects))
            return _Output(0.0, 0.0, 0.0, origin(model, m.reference, m.target))
        natural = scale(call, name)
        max_scale = natural / math.sqrt(m.num) if m.num else 0.0
        own = self._strict * _rounding(call, model, inputs, m)
        tolerance = own + self._strict * _explained(call, inputs, m)
        error = m.error(natural, max_scale)
        allowed = tolerance * max(m.greatest, max_scale)
        discrete = model.selective or epsilon(m.reference.dtype) == 0
        if inputs.noise > 0 and discrete and not m.nonfinite_differs:
            error, excused = _without_switched(m, inputs.noise, max(m.l2, natural))
            tolerance += excused
            allowed = 2.0 * m.greatest
        self._flow.judged(m, min(allowed, 8.0 * m.greatest), call.inputs.values(), _unseen(m, inputs.suspects))
        return _Output(error, own, tolerance, origin(model, m.reference, m.target))


def _rounding(call: Call, model: ErrorModel, inputs: Inputs, m: Measure) -> float:
    """Return the rounding of the call itself.

    A cast to fewer bits turns noise below one unit in the last place into a whole unit here and there.
    """
    own = rounding(model, m.reference, m.target)
    eps = epsilon(m.reference.dtype, m.target.dtype)
    if own == 0 and m.exact is None and eps:
        own = STATISTICS_FLOOR
    finest = min((epsilon(tensor.dtype) for tensor in call.inputs.values() if epsilon(tensor.dtype)), default=0.0)
    return max(own, eps) if inputs.noise > 0 and finest and eps > finest else own


def _explained(call: Call, inputs: Inputs, m: Measure) -> float:
    """Return the relative error that the inputs' errors may have become."""
    if call.operator in MOVING and m.rms > 0 and not math.isinf(inputs.peak):
        return 2.0 * inputs.peak / m.rms
    return inputs.noise + (CHAOS if inputs.noise > CHAOTIC else 0.0)


def _without_switched(m: Measure, noise: float, l2_scale: float) -> tuple[float, float]:
    """Return (error, tolerance) of the other elements, when those near a threshold switch within the noise.

    One more than expected may switch. From whole tensors, they are taken out of the error; an element
    that appears or goes changes the L2 norm by at most greatest² / (2·L2) and the mean by greatest / n.
    """
    if l2_scale == 0 or m.rms == 0:
        return math.inf, 0.0
    switched = min(m.num, 1.0 + noise * m.num)
    if m.exact is not None:
        return math.sqrt(max(0.0, m.l2_error**2 - switched * m.max_error**2)) / l2_scale, 0.0
    share = m.greatest / m.rms
    return m.norm_error / l2_scale, switched / m.num * (share * share / 2.0 + share)


def _unseen(m: Measure, suspects: tuple[Call, ...]) -> tuple[Call, ...]:
    """Return the suspects that stay so: statistics do not show that elements have changed places."""
    if not suspects or m.exact is not None:
        return ()
    return tuple(call for call in suspects if call.operator in SHUFFLING)


def _status(
    call: Call,
    inputs: Inputs,
    found: Iterable[tuple[str, Measure]],
    worst: _Output,
    arguments: Iterable[ArgumentDiff],
) -> OperatorStatus:
    other_arguments = any(argument.given for argument in arguments)
    differs = worst.excess > 1.0 or (other_arguments and worst.error > worst.rounding)
    if differs and call.operator in RANDOM and _drew_others(found):
        return "random"
    if differs or inputs.out_of_line is not None:
        return "diverge"
    return "inherited" if worst.error > worst.rounding else "agree"


def _drew_others(found: Iterable[tuple[str, Measure]]) -> bool:
    """Return whether the random numbers differ: a mask, where the call returns one, tells them from their scaling."""
    masks = [m for _, m in found if m.reference.dtype in {"bool", "uint8"}]
    return not all(m.equal for m in masks) if masks else True


def _diff(reference: Call, target: Call, inputs: Inputs, **figures: Any) -> OperatorDiff:
    row, other = reference.row, target.row
    return OperatorDiff(
        step=row.step,
        rank=row.rank,
        kind=row.kind,
        phase=row.phase,
        module_path=reference.path,
        module_type=row.module_type,
        occurrence=row.occurrence,
        reference_name=row.name,
        target_name=other.name,
        reference_seq=row.seq,
        target_seq=other.seq,
        source=other.source or row.source,
        reference_source=row.source,
        inherited=inputs.worst,
        inputs=tuple(inputs.diffs),
        **figures,
    )
