"""Reads the inputs of a pair of calls: their errors, the origin of the errors, and what the errors excuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from jumar.comparison.judge.flow import Flow, peak_of
from jumar.comparison.measure.conditioning import amplifications
from jumar.comparison.measure.distances import Measure, measure
from jumar.comparison.measure.leaves import Leaf, leaf_of
from jumar.comparison.measure.loading import Loaders
from jumar.comparison.measure.tolerance import STATISTICS_FLOOR, epsilon
from jumar.comparison.model.calls import Call, paired
from jumar.recording.schema import TensorRow

Measuring = Callable[[TensorRow, TensorRow, Loaders], Measure]

Known = tuple[str, Measure, float]
"""Name and distance of an input, and the absolute error of an element that compared calls account for."""

UNEXPLAINED = 8.0
"""An input is out of line when its difference is this many times what the calls before it account for."""


@dataclass(slots=True)
class Inputs:
    """What the inputs of a call tell."""

    measures: list[tuple[str, Measure, None]] = field(default_factory=list)
    """By name, as `Shown` takes them."""
    noise: float = 0.0
    """Sum of the inputs' relative errors times their amplification."""
    peak: float = 0.0
    """Absolute error of the worst element of any input."""
    worst: float = 0.0
    """Greatest relative error; a lower bound with statistics."""
    suspects: tuple[Call, ...] = ()
    """Calls not judged that made them."""
    out_of_line: tuple[str, float, float] | None = None
    """Name, relative error and tolerance of the first input that differs by more than the calls before account for."""
    leaves: list[Leaf] = field(default_factory=list)

    @property
    def complaint(self) -> str:
        """What is wrong with an input that is out of line; empty when none is."""
        if self.out_of_line is None:
            return ""
        return f"{self.out_of_line[0]} differs already, though the calls compared before do not account for it"


def read_inputs(
    reference: Call,
    target: Call,
    load: Loaders,
    flow: Flow,
    parameters: frozenset[int],
    strict: float,
    measured: Measuring = measure,
) -> Inputs:
    """Measure the inputs of a pair. `strict` is the factor on every tolerance, `measured` what takes the distance."""
    inputs = Inputs()
    came_in: list[Known] = []
    unread = flow.unread(reference, target)
    for name, a, b in paired(reference, target, "inputs"):
        if name in unread:
            continue
        found = measured(a, b, load)
        suspects, is_leaf, known_noise = flow.arrives(found)
        if suspects:
            inputs.suspects = tuple(dict.fromkeys((*inputs.suspects, *suspects)))
        if is_leaf:
            leaf = leaf_of(reference, name, found, parameters)
            if leaf is not None:
                inputs.leaves.append(leaf)
        elif found.known and not found.equal and inputs.out_of_line is None:
            figures = input_out_of_line(flow, found, strict)
            inputs.out_of_line = figures and (name, *figures)
        came_in.append((name, found, known_noise))
    return inputs_of(reference, came_in, inputs)


def inputs_of(call: Call, came_in: Iterable[Known], inputs: Inputs | None = None) -> Inputs:
    """Return what the errors of the inputs of a pair amount to, with what is known of them already (`inputs`)."""
    inputs = inputs or Inputs()
    factors: dict[str, float] = {}
    for name, found, known in came_in:
        inputs.measures.append((name, found, None))
        if found.known and (noise := _noise(found, known)) > 0:
            factors = factors or amplifications(call)
            _add_noise(inputs, found, noise, factors.get(name, 1.0))
    return inputs


def _add_noise(inputs: Inputs, found: Measure, noise: float, factor: float) -> None:
    inputs.peak = max(inputs.peak, peak_of(found))
    if factor:
        inputs.noise += noise * factor
        inputs.worst = max(inputs.worst, found.error())


def input_out_of_line(flow: Flow, found: Measure, strict: float) -> tuple[float, float] | None:
    """Return (error, tolerance) when the input differs by more than the calls before it account for."""
    known = None if found.equal else flow.known_peak(found)
    if known is None:
        return None
    if found.nonfinite_differs:
        return None if math.isinf(known) else (math.inf, 0.0)
    return out_of_line(found, known, strict)


def out_of_line(found: Measure, known: float, strict: float) -> tuple[float, float] | None:
    """Return (error, tolerance) when a difference exceeds what calls before it account for: `known`, absolute."""
    eps = epsilon(found.reference.dtype, found.target.dtype) or STATISTICS_FLOOR
    allowed = strict * (UNEXPLAINED * known + 4.0 * eps * found.greatest)
    return None if found.max_error <= allowed else (found.max_error / found.greatest, allowed / found.greatest)


def _noise(found: Measure, known: float) -> float:
    """Return the relative error of an input, measured or (in a part of a storage) known from its maker."""
    noise = 0.0 if found.equal else found.relative_noise()
    known = known / rms if known and (rms := found.rms) else 0.0
    return known if known > noise else noise
