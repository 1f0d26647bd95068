"""Compares gradients and parameters step by step, from the `parameter` rows of both recordings.

Each gradient's error is relative to the norm of all gradients together. The gradient of a bias before a normalisation,
for example, is a remainder of cancelled terms: its own relative error is 1 on every pair of devices, and it hardly
changes the update. With whole tensors the differences are exact, with statistics or sketches they are what `measure`
knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jumar.comparison.diagnosis.results import StepCurve
from jumar.comparison.diagnosis.rows import Both, named
from jumar.comparison.measure.distances import measure
from jumar.recording.schema import CallRow, TensorRow

MAX_STEPS = 200
"""Steps of one rank that are read for the curves; of more, these are spread evenly."""
GRADIENT, VALUE = "input.grad", "output.0"


def curves(both: Both, notes: list[str]) -> list[StepCurve]:
    """Return one point a common step of the first common rank; empty when no parameters were recorded."""
    places = both.common()
    first_rank = min((rank for _, rank in places), default=0)
    places = [place for place in places if place[1] == first_rank]
    if not any("op" in info.levels for info in (both.reference.info, both.target.info)):
        return []
    if len(places) > MAX_STEPS:
        notes.append(f"gradient norms are shown at {MAX_STEPS} of {len(places):,} steps")
        places = [places[round(i * (len(places) - 1) / (MAX_STEPS - 1))] for i in range(MAX_STEPS)]
    points = []
    for index, place in enumerate(places):
        point = curve_of(both, *place)
        if index == 0 and point.num_parameters == 0:
            return []
        points.append(point)
    return points


@dataclass(slots=True)
class _Sum:
    """Squares summed over parameters."""

    reference: float = 0.0
    target: float = 0.0
    apart: float = 0.0
    known: bool = False
    worst: str = ""
    worst_apart: float = 0.0

    def add(self, name: str, a: TensorRow | None, b: TensorRow | None) -> None:
        if a is None or b is None:
            return
        found = measure(a, b)
        if not found.known or a.l2 is None or b.l2 is None:
            return
        self.known = True
        self.reference += a.l2**2
        self.target += b.l2**2
        apart = math.inf if found.nonfinite_differs else found.l2_error**2
        self.apart += apart
        if apart > self.worst_apart:
            self.worst, self.worst_apart = name, apart

    @property
    def error(self) -> float | None:
        if not self.known:
            return None
        if self.apart == 0:
            return 0.0
        return math.sqrt(self.apart / self.reference) if self.reference else math.inf


def curve_of(both: Both, step: int, rank: int) -> StepCurve:
    """Return the point of one step."""
    reference, target = (_parameters(both.parameters(step, rank, of_target=side)) for side in (False, True))
    gradients, values = _Sum(), _Sum()
    common = [name for name in reference if name in target]
    for name in common:
        gradients.add(name, named(reference[name].inputs).get(GRADIENT), named(target[name].inputs).get(GRADIENT))
        values.add(name, named(reference[name].outputs).get(VALUE), named(target[name].outputs).get(VALUE))
    return StepCurve(
        step=step,
        rank=rank,
        reference_norm=math.sqrt(gradients.reference) if gradients.known else _norm(reference),
        target_norm=math.sqrt(gradients.target) if gradients.known else _norm(target),
        gradient_error=gradients.error,
        parameter_error=values.error,
        worst_gradient=gradients.worst,
        num_parameters=len(common),
    )


def _parameters(rows: list[CallRow]) -> dict[str, CallRow]:
    return {".".join(part for part in (row.module_path, row.name) if part): row for row in rows}


def _norm(parameters: dict[str, CallRow]) -> float | None:
    """Return the norm of one side's gradients, where the names of the two sides have nothing in common."""
    norms = [g.l2 for row in parameters.values() if (g := named(row.inputs).get(GRADIENT)) and g.l2 is not None]
    return math.sqrt(sum(norm**2 for norm in norms)) if norms else None
