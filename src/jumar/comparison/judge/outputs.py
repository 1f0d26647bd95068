"""Judges the outputs of a pair of calls: each error, its tolerance, and the public record of the pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.comparison.judge.memory import Memory
from jumar.comparison.judge.reading import Inputs
from jumar.comparison.measure.distances import Measure
from jumar.comparison.measure.records import Shown
from jumar.comparison.measure.scales import scale
from jumar.comparison.measure.tolerance import (
    MULTIPLES,
    STATISTICS_FLOOR,
    ErrorModel,
    epsilon,
    error_model,
    origin,
    rounding,
)
from jumar.comparison.model.calls import Call, argument_differences, draws
from jumar.comparison.model.kinds import CONVOLUTIONS, MOVING, PRODUCTS, REGION, SHUFFLING
from jumar.comparison.model.results import ArgumentDiff, OperatorDiff, OperatorStatus
from jumar.recording import RunInfo, TensorRow

CHAOTIC, CHAOS = 0.5, 2.0
"""Noise of the inputs from which outputs are free to be anything: a relative error cannot exceed 2."""

OF_COARSE = 4.0
"""Epsilons of the coarsest type of the step that a module may be off by: what it calculates in does not show in what
it returns."""

MEASURED = "measured noise floor"
"""Where a tolerance comes from that floor recordings gave."""


@dataclass(slots=True)
class OutputVerdict:
    """The judgement of one output; relative errors."""

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

    @property
    def floor(self) -> float:
        """The noise floor that the tolerance is a multiple of."""
        return self.tolerance / MULTIPLES


@dataclass(slots=True)
class OutputJudge:
    """Judges the outputs of one pair of calls."""

    call: Call
    """Of the reference."""
    model: ErrorModel
    inputs: Inputs
    memory: Memory
    strict: float
    """Factor on every tolerance."""

    def judge(self, name: str, m: Measure) -> tuple[OutputVerdict, float]:
        """Return the verdict, and the greatest absolute error of an element that it allows for."""
        if m.equal:
            return OutputVerdict(0.0, 0.0, 0.0, origin(self.model, m.reference, m.target)), 0.0
        natural = scale(self.call, name)
        max_scale = natural / math.sqrt(m.num) if m.num else 0.0
        own, explained, source = self._allowed(name, m)
        tolerance = own + explained
        error = m.error(natural, max_scale)
        allowed = tolerance * max(m.greatest, max_scale)
        discrete = self.model.selective or epsilon(m.reference.dtype) == 0
        if self.inputs.noise > 0 and discrete and not m.nonfinite_differs:
            error, excused = _without_switched(m, self.inputs.noise, max(m.l2, natural))
            tolerance += excused
            allowed = 2.0 * m.greatest
        return OutputVerdict(error, own, tolerance, source), min(allowed, 8.0 * m.greatest)

    def _allowed(self, name: str, m: Measure) -> tuple[float, float, str]:
        """Return (own rounding, what the inputs explain, where that comes from)."""
        model = self._rounding(m), self._explained(m)
        floor = self.memory.floor
        source = origin(self.model, m.reference, m.target)
        measured = floor.tolerance(self.call, name, m.target.dtype, model, self.inputs.worst) if floor else None
        own, explained = measured or model
        return self.strict * own, self.strict * explained, MEASURED if measured else source

    def _rounding(self, m: Measure) -> float:
        """Return the rounding of the call itself.

        A cast to fewer bits turns noise below one unit in the last place into a whole unit here and there.
        """
        own = rounding(self.model, m.reference, m.target)
        if self.call.row.kind == "module":
            own += OF_COARSE * self.memory.coarsest
        own += product_epsilon(self.call.operator, (m.reference, m.target), self.memory.reduced)
        eps = epsilon(m.reference.dtype, m.target.dtype)
        if own == 0 and m.exact is None and eps:
            own = STATISTICS_FLOOR * self._weight_of_whole(m)
        if self.inputs.noise <= 0 or own >= eps:
            return own
        finest = min([eps_in for tensor in self.call.inputs.values() if (eps_in := epsilon(tensor.dtype))], default=0.0)
        return eps if finest and eps > finest else own

    def _weight_of_whole(self, m: Measure) -> float:
        """Return how many times an error of an input weighs in a part of it: statistics of the whole do not show an
        error below their resolution, which may lie in that part alone."""
        norms = [tensor.l2 for tensor in self.call.inputs.values() if tensor.l2 is not None]
        return max([1.0, *(norm / m.l2 for norm in norms)]) if m.l2 > 0 else 1.0

    def _explained(self, m: Measure) -> float:
        """Return the relative error that the inputs' errors may have become."""
        if self.call.operator in MOVING and m.rms > 0 and not math.isinf(self.inputs.peak):
            return 2.0 * self.inputs.peak / m.rms
        return self.inputs.noise + (CHAOS if self.inputs.noise > CHAOTIC else 0.0)


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


def unseen(m: Measure, suspects: tuple[Call, ...]) -> tuple[Call, ...]:
    """Return the suspects that stay so: statistics do not show that elements have changed places."""
    if not suspects or m.sees_places:
        return ()
    return tuple(call for call in suspects if call.operator in SHUFFLING)


Output = tuple[str, Measure]
"""Name and distance of an output."""

Judged = tuple[OutputVerdict, float]
"""The verdict of an output, and the greatest absolute error of an element that it allows for."""


def judge_outputs(
    reference: Call, inputs: Inputs, found: Iterable[Output], memory: Memory, strict: float
) -> list[Judged | None]:
    """Judge each output of a pair; None for one of which nothing is known. `strict` is a factor on every tolerance."""
    judge = OutputJudge(reference, error_model(reference), inputs, memory, strict)
    return [judge.judge(name, m) if m.known else None for name, m in found]


def compared_diff(
    reference: Call, target: Call, inputs: Inputs, found: Sequence[Output], judged: Sequence[Judged | None]
) -> OperatorDiff:
    """Return the public record of a pair of which at least one output was judged."""
    arguments = differing_arguments(reference, target)
    known = [output[0] for output in judged if output is not None]
    worst = known[0] if len(known) == 1 else max(known, key=lambda output: (output.excess, output.error))
    return blank_diff(
        reference,
        target,
        inputs,
        status=_status(reference, inputs, found, worst, arguments),
        outputs=Shown(
            [
                (name, m, output[0].error if output is not None else None)
                for (name, m), output in zip(found, judged, strict=True)
            ]
        ),
        error=worst.error,
        floor=worst.floor,
        tolerance=worst.tolerance,
        rounding=worst.rounding,
        tolerance_origin=worst.origin,
        arguments=arguments,
        note=inputs.complaint if inputs.out_of_line else "",
    )


def _status(
    call: Call,
    inputs: Inputs,
    found: Iterable[Output],
    worst: OutputVerdict,
    arguments: Iterable[ArgumentDiff],
) -> OperatorStatus:
    # NOTE: the calls that leave a region may be of two calculations, whose arguments mean other things
    other_arguments = call.operator != REGION and any(argument.given for argument in arguments)
    differs = worst.excess > 1.0 or (other_arguments and worst.error > worst.rounding)
    if differs and draws(call.row) and not tuple(arguments) and _drew_others(found):
        return "random"
    if differs or inputs.out_of_line is not None:
        return "diverge"
    return "inherited" if worst.error > worst.rounding else "agree"


def _drew_others(found: Iterable[Output]) -> bool:
    """Return whether the random numbers differ: a mask, where the call returns one, tells them from their scaling."""
    masks = [m for _, m in found if m.reference.dtype in {"bool", "uint8"}]
    return not all(m.equal for m in masks) if masks else True


def differing_arguments(reference: Call, target: Call) -> tuple[ArgumentDiff, ...]:
    """Return the scalar arguments with which a pair is called differently."""
    same = reference.row.arguments == target.row.arguments
    return () if same else argument_differences(reference, target)


def blank_diff(reference: Call, target: Call, inputs: Inputs, **figures: Any) -> OperatorDiff:
    """Return the public record of a pair, with the figures given."""
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
        inputs=Shown(inputs.measures),
        **figures,
    )


REDUCED = 2.0**-10
"""Epsilon of TensorFloat-32; HF32 has one bit more on some chips. Both factors of a product are rounded to it."""

MATMUL = PRODUCTS | {"scaled_dot_product_attention"}


def reduced_products(*runs: RunInfo) -> dict[str, frozenset[str]]:
    """Return, by device type, the operators of which a run may compute float32 products with fewer bits."""
    found: dict[str, frozenset[str]] = {}
    for run in runs:
        devices = run.settings.get("reduced_float32_products")
        for device, switches in devices.items() if isinstance(devices, Mapping) else ():
            found[device] = found.get(device, frozenset()) | _operators(switches)
    return found


def _operators(switches: Mapping[str, Any]) -> frozenset[str]:
    found = MATMUL if switches.get("matmul") else frozenset()
    return found | CONVOLUTIONS if switches.get("convolution") else found


def product_epsilon(
    operator: str, outputs: tuple[TensorRow, TensorRow], reduced: Mapping[str, frozenset[str]]
) -> float:
    """Return what fewer bits in the factors add to an operator's rounding; 0 where none are taken away."""
    for output in outputs:
        operators = reduced.get(output.device.split(":", 1)[0], ())
        if operator in operators and output.dtype == "float32":
            return 2.0 * REDUCED
    return 0.0
