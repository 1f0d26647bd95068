"""Judges one pair of calls: does the output differ by more than rounding and its inputs explain?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import MOVING, RANDOM, SHUFFLING, UNINITIALISED, names
from jumar.accuracy.flow import Flow, peak_of
from jumar.accuracy.leaves import Leaf, leaf_of
from jumar.accuracy.measure import Loader, Measure, measure, tensor_diff
from jumar.accuracy.results import ArgumentDiff, OperatorDiff, OperatorStatus, TensorDiff
from jumar.accuracy.tolerance import (
    STATISTICS_FLOOR,
    ErrorModel,
    amplifications,
    epsilon,
    error_model,
    origin,
    rounding,
    scale,
)

IGNORED_ARGUMENTS = names(
    "device dtype layout memory_format pin_memory non_blocking generator requires_grad output_mask copy"
)
"""Arguments in which devices differ by nature, or that the outputs show."""

UNEXPLAINED = 8.0
"""An input is out of line when its difference is this many times what the calls before it account for."""

CHAOTIC, CHAOS = 0.5, 2.0
"""Noise of the inputs from which outputs are free to be anything: a relative error cannot exceed 2."""

DEFAULT = "(default)"
"""Stands for an argument that one side did not give."""

Load = Callable[[Call, Call], tuple[Loader, Loader] | None]


@dataclass(slots=True)
class Judgement:
    """The outcome for one pair, with what the search needs beyond the public record."""

    diff: OperatorDiff
    suspects: tuple[Call, ...] = ()
    """Calls not judged whose outputs this one read; with status `diverge` the difference arises there."""
    leaves: tuple[Leaf, ...] = ()
    """Inputs from outside the step that differ."""
    out_of_line: tuple[float, float] | None = None
    """Relative error and tolerance of an input that differs though every call that was compared before agrees."""


@dataclass(slots=True)
class _Inputs:
    """What the inputs of a call tell."""

    diffs: list[TensorDiff]
    noise: float = 0.0
    """Sum of the inputs' relative errors times their amplification."""
    peak: float = 0.0
    """Absolute error of the worst element of any input."""
    worst: float = 0.0
    """Greatest relative error, lower bound."""
    suspects: tuple[Call, ...] = ()
    unexplained: str = ""
    out_of_line: tuple[float, float] | None = None
    """Relative error and tolerance of the unexplained input."""
    leaves: tuple[Leaf, ...] = ()


class Judge:
    """Judges the pairs of one step in order of execution; keeps the flow of values between them."""

    def __init__(self, flow: Flow, parameters: frozenset[int], load: Load, tolerance_scale: float = 1.0) -> None:
        self._flow = flow
        self._parameters = parameters
        self._load = load
        self._scale = tolerance_scale

    def alone(self, call: Call, side: Literal["reference", "target"]) -> None:
        """Take note of a call that only one side has."""
        self._flow.not_judged(call, side)

    def pair(self, reference: Call, target: Call) -> Judgement:
        """Judge a pair of calls."""
        load = self._load(reference, target)
        inputs = self._inputs(reference, target, load)
        if reference.operator in UNINITIALISED:
            return self._not_compared(reference, target, inputs, "the output is uninitialised memory")
        found = [(name, measure(a, b, load)) for name, a, b in _paired(reference, target, "outputs")]
        if not any(m.known for _, m in found):
            reason = found[0][1].note if found else "no output was recorded"
            return self._not_compared(reference, target, inputs, reason, [tensor_diff(n, m) for n, m in found])
        return self._judge(reference, target, inputs, found)

    def _not_compared(
        self, reference: Call, target: Call, inputs: _Inputs, reason: str, outputs: Iterable[TensorDiff] = ()
    ) -> Judgement:
        self._flow.not_judged(reference, "reference")
        self._flow.not_judged(target, "target")
        shapes_differ = (
            reference.row.kind == "op" and reason.startswith("shapes differ") and _same_name(reference, target)
        )
        bad = bool(inputs.unexplained) or shapes_differ
        diff = _diff(
            reference, target, "diverge" if bad else "not-compared", inputs, outputs=tuple(outputs),
            note=inputs.unexplained or reason, arguments=argument_differences(reference, target),
        )  # fmt: skip
        return Judgement(diff, inputs.suspects, inputs.leaves, inputs.out_of_line)

    def _inputs(self, reference: Call, target: Call, load: tuple[Loader, Loader] | None) -> _Inputs:
        result = _Inputs([])
        factors: dict[str, float] | None = None
        suspects: list[Call] = []
        leaves = []
        for name, a, b in _paired(reference, target, "inputs"):
            if self._flow.reads_garbage(reference, name, "reference") or (
                name in target.inputs and self._flow.reads_garbage(target, name, "target")
            ):
                continue
            found = measure(a, b, load)
            result.diffs.append(tensor_diff(name, found))
            suspects.extend(self._suspects(found))
            if not found.known:
                continue
            leaf = self._leaf(reference, name, found)
            if leaf is not None:
                leaves.append(leaf)
            elif not result.unexplained and (figures := self._out_of_line(found)):
                result.unexplained = f"{name} differs already, though the calls compared before do not account for it"
                result.out_of_line = figures
            noise = self._noise(found)
            if noise > 0:
                factors = amplifications(reference) if factors is None else factors
                if factor := factors.get(name, 1.0):
                    result.noise += noise * factor
                    result.worst = max(result.worst, found.error())
                result.peak = max(result.peak, peak_of(found))
        result.suspects = tuple(dict.fromkeys(suspects))
        result.leaves = tuple(leaves)
        return result

    def _suspects(self, found: Measure) -> tuple[Call, ...]:
        if not self._flow.enabled:
            return ()
        return (
            *self._flow.trace("reference", found.reference).suspects,
            *self._flow.trace("target", found.target).suspects,
        )

    def _leaf(self, call: Call, name: str, found: Measure) -> Leaf | None:
        if not self._flow.enabled:
            return None
        traces = self._flow.trace("reference", found.reference), self._flow.trace("target", found.target)
        if not (traces[0].leaf and traces[1].leaf):
            return None
        self._flow.settle_leaf(found)
        return leaf_of(call, name, found, self._parameters)

    def _out_of_line(self, found: Measure) -> tuple[float, float] | None:
        """Return (error, tolerance) when the input differs by more than the calls before it account for."""
        if not self._flow.enabled or found.equal:
            return None
        traces = self._flow.trace("reference", found.reference), self._flow.trace("target", found.target)
        if traces[0].leaf or traces[1].leaf:
            return None
        known = max(trace.peak for trace in traces)
        eps = epsilon(found.reference.dtype, found.target.dtype) or STATISTICS_FLOOR
        allowed = self._scale * (UNEXPLAINED * known + 4.0 * eps * found.greatest)
        if found.nonfinite_differs:
            return None if math.isinf(known) else (math.inf, 0.0)
        if found.max_error <= allowed:
            return None
        return found.max_error / found.greatest, allowed / found.greatest

    def _noise(self, found: Measure) -> float:
        """Return the relative error of an input, measured or (in a part of a storage) known from its maker."""
        noise = found.relative_noise()
        if not self._flow.enabled or found.rms == 0:
            return noise
        sides = (("reference", found.reference), ("target", found.target))
        known = max(self._flow.trace(side, tensor).noise for side, tensor in sides)  # type: ignore[arg-type]  # a Side
        return max(noise, known / found.rms)

    def _judge(self, reference: Call, target: Call, inputs: _Inputs, found: list[tuple[str, Measure]]) -> Judgement:
        arguments = argument_differences(reference, target)
        model = error_model(reference)
        outputs: list[TensorDiff] = []
        worst: tuple[float, float, float, str] | None = None
        for name, m in found:
            if not m.known:
                outputs.append(tensor_diff(name, m))
                self._flow.not_judged(reference, "reference")
                self._flow.not_judged(target, "target")
                continue
            error, own, tolerance = self._output(reference, target, model, inputs, name, m)
            outputs.append(tensor_diff(name, m, error))
            excess = _excess(error, tolerance)
            if worst is None or excess > worst[0] or (excess == worst[0] and error > worst[1]):
                worst = excess, error, tolerance, origin(model, m.reference, m.target)
                worst_own = own
        assert worst is not None
        excess, error, tolerance, where_from = worst
        self._flow.wrote_silently(reference, "reference")
        self._flow.wrote_silently(target, "target")
        status = self._status(reference, inputs, found, error, worst_own, excess, arguments)
        diff = _diff(
            reference, target, status, inputs, outputs=tuple(outputs), error=error, tolerance=tolerance,
            rounding=worst_own, tolerance_origin=where_from, arguments=arguments, note=inputs.unexplained,
        )  # fmt: skip
        return Judgement(diff, inputs.suspects, inputs.leaves, inputs.out_of_line)

    def _output(
        self, reference: Call, target: Call, model: ErrorModel, inputs: _Inputs, name: str, m: Measure
    ) -> tuple[float, float, float]:
        """Return (error, rounding, tolerance) of one output and note it in the flow."""
        if m.equal:
            if self._flow.enabled:
                self._flow.judged(m, 0.0, reference.inputs.values(), _unseen(m, inputs.suspects))
            return 0.0, 0.0, 0.0
        natural = scale(reference, name)
        root = math.sqrt(m.num) if m.num else 1.0
        own = rounding(model, m.reference, m.target, reference.row.autocast or target.row.autocast)
        floor = STATISTICS_FLOOR if m.exact is None and own == 0 and epsilon(m.reference.dtype) else 0.0
        if inputs.noise > 0:
            own = max(own, _cast_rounding(reference, m))
        own = self._scale * max(own, floor)
        moves = reference.operator in MOVING and m.rms > 0 and not math.isinf(inputs.peak)
        explained = 2.0 * inputs.peak / m.rms if moves else inputs.noise
        tolerance = own + self._scale * explained + (CHAOS if inputs.noise > CHAOTIC else 0.0)
        error = m.error(natural, natural / root)
        allowed = tolerance * max(m.greatest, natural / root)
        discrete = epsilon(m.reference.dtype) == 0
        if inputs.noise > 0 and (model.selective or discrete) and not m.nonfinite_differs:
            error = m.l2_error / max(m.l2, natural) if max(m.l2, natural) else math.inf
            tolerance += _switched(m, inputs.noise)
            allowed = max(allowed, 2.0 * m.greatest)
        if self._flow.enabled:
            worst = min(allowed, 8.0 * m.greatest)
            self._flow.judged(m, worst, reference.inputs.values(), _unseen(m, inputs.suspects))
        return error, own, tolerance

    def _status(
        self,
        reference: Call,
        inputs: _Inputs,
        found: list[tuple[str, Measure]],
        error: float,
        own: float,
        excess: float,
        arguments: tuple[ArgumentDiff, ...],
    ) -> OperatorStatus:
        given = [a for a in arguments if a.given]
        differs = excess > 1.0 or (bool(given) and error > own)
        if differs and reference.operator in RANDOM and _drew_others(found):
            return "random"
        if differs or inputs.unexplained:
            return "diverge"
        return "inherited" if error > own else "agree"


def _unseen(m: Measure, suspects: tuple[Call, ...]) -> tuple[Call, ...]:
    """Return the suspects that stay so: statistics do not show that elements have changed places."""
    return () if m.exact is not None else tuple(call for call in suspects if call.operator in SHUFFLING)


def _excess(error: float, tolerance: float) -> float:
    """Return the error in tolerances; an infinite tolerance (the inputs hold NaN already) excuses everything."""
    if error == 0 or math.isinf(tolerance):
        return 0.0
    return error / tolerance if tolerance > 0 else math.inf


def _cast_rounding(call: Call, m: Measure) -> float:
    """Return the rounding of a cast to fewer bits: noise below one unit in the last place may flip that unit."""
    finest = min((epsilon(tensor.dtype) for tensor in call.inputs.values() if epsilon(tensor.dtype)), default=0.0)
    mine = epsilon(m.reference.dtype, m.target.dtype)
    return mine if finest and mine > finest else 0.0


def _switched(m: Measure, noise: float) -> float:
    """Return the relative L2 error if as many elements switch as have a value within the noise of the threshold."""
    if m.rms == 0:
        return 1.0
    switched = min(m.num, 1.0 + noise * m.num)
    return math.sqrt(switched / m.num) * m.greatest / m.rms


def _drew_others(found: list[tuple[str, Measure]]) -> bool:
    """Return whether the random numbers differ: a mask, where the call returns one, tells them from their scaling."""
    masks = [m for _, m in found if m.reference.dtype in {"bool", "uint8"}]
    return not all(m.equal for m in masks) if masks else True


def _same_name(reference: Call, target: Call) -> bool:
    return reference.row.name.split(".", 1)[0].rstrip("_") == target.row.name.split(".", 1)[0].rstrip("_")


def _paired(reference: Call, target: Call, side: Literal["inputs", "outputs"]) -> list[tuple[str, Any, Any]]:
    """Return (name, reference, target) of the tensors that belong together.

    By name; variants of a kernel take their arguments in another order, there by shape and order.
    """
    first, second = getattr(reference, side), getattr(target, side)
    if reference.row.name == target.row.name or _same_name(reference, target) or reference.row.kind != "op":
        return [(name, tensor, second[name]) for name, tensor in first.items() if name in second]
    left = list(second.values())
    pairs = []
    for name, tensor in first.items():
        other = next((t for t in left if t.shape == tensor.shape and _same_family(t.dtype, tensor.dtype)), None)
        if other is not None:
            left.remove(other)
            pairs.append((name, tensor, other))
    return pairs


def _same_family(first: str, second: str) -> bool:
    return first == second or (epsilon(first) > 0 and epsilon(second) > 0)


def argument_differences(reference: Call, target: Call) -> tuple[ArgumentDiff, ...]:
    """Return the scalar arguments that differ between two calls of an equally named operator."""
    same_item = (reference.item is None) == (target.item is None)
    if reference.row.arguments == target.row.arguments or not (_same_name(reference, target) and same_item):
        return ()
    try:
        mine, theirs = reference.arguments(), target.arguments()
    except json.JSONDecodeError:
        return ()
    return tuple(
        ArgumentDiff(
            name=name,
            reference=mine.get(name, DEFAULT),
            target=theirs.get(name, DEFAULT),
            given=name in mine and name in theirs,
        )
        for name in {**mine, **theirs}
        if not _ignored(name) and mine.get(name, DEFAULT) != theirs.get(name, DEFAULT)
    )


def _ignored(name: str) -> bool:
    return name in IGNORED_ARGUMENTS or name.endswith("dtype")


def _diff(reference: Call, target: Call, status: OperatorStatus, inputs: _Inputs, **figures: Any) -> OperatorDiff:
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
        status=status,
        inherited=inputs.worst,
        inputs=tuple(inputs.diffs),
        **figures,
    )
