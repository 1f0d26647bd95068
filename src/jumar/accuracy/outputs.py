"""Judges one output of a pair of calls: its error, what it may be, where that figure comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import MOVING, SHUFFLING
from jumar.accuracy.floors import MULTIPLES
from jumar.accuracy.measure import Measure
from jumar.accuracy.memory import Memory
from jumar.accuracy.precision import product_epsilon
from jumar.accuracy.reading import Inputs
from jumar.accuracy.scales import scale
from jumar.accuracy.tolerance import STATISTICS_FLOOR, ErrorModel, epsilon, origin, rounding

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
            own = STATISTICS_FLOOR
        if self.inputs.noise <= 0 or own >= eps:
            return own
        finest = min([eps_in for tensor in self.call.inputs.values() if (eps_in := epsilon(tensor.dtype))], default=0.0)
        return eps if finest and eps > finest else own

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
