"""The error model behind every verdict, and the measured noise floor: by how much correct executions may differ.

For one operator and one output

    tolerance = rounding + amplification · (noise of the inputs)
    rounding  = eps(dtype) + eps(accumulation dtype) · (8 + 2·√K)      (0 for operators that only select or move)

- eps(dtype) is the machine epsilon of the coarser of the two sides' dtypes: one unit in the last
  place, so that bfloat16 against float32 is judged in bfloat16's units.
- K is the number of terms that are summed into one element. Rounding errors of a sum behave like a
  random walk, hence √K (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 4.2 and 2.8;
  the worst case is K, met in practice nowhere near). Half types accumulate in float32 on every
  device considered here, so their sums grow with float32's epsilon. The 8 covers transcendental
  functions, for which devices document errors of a few units in the last place.
- Errors are judged relative to the scale of the calculation, not only of its result: where terms
  cancel (the mean of a layer-norm's output, the gradient of a bias before a batch norm) the result is
  noise on every device and its relative error means nothing. `scale` gives the norm that the
  result would have if the terms had not cancelled.
- Amplification says how far an error of the inputs may grow (condition number, by kind of operator).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from jumar.comparison.measure.scales import accumulation_length
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import ELEMENTWISE_LAYERS, EXACT, SELECTIVE, SMOOTH_LAYERS
from jumar.comparison.model.results import OperatorDiff
from jumar.operators import dtypes
from jumar.recording.schema import TensorRow

FLOAT32_EPSILON = dtypes.epsilon("float32")

STATISTICS_FLOOR = 2.0**-22
"""Devices sum the statistics themselves in another order, some in float32."""

MODULE_LENGTH = float(1 << 16)
"""A module is many operators: its rounding is that of a sum of this length."""


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """What the outputs of one call may differ by."""

    length: float
    """K, the terms summed into one element of the output."""
    exact: bool
    """Equal inputs must give equal outputs."""
    selective: bool
    """A rounding difference may switch single elements."""


@lru_cache(maxsize=256)
def epsilon(*names: str) -> float:
    """Return the machine epsilon of the coarsest of the dtypes `names`; 0 for integers and bool."""
    return max(map(dtypes.epsilon, names))


def error_model(call: Call) -> ErrorModel:
    """Return the error model of a call, from its operator and shapes."""
    if call.row.kind != "op" or call.homes:  # a module, or a region of operators
        layer = call.layer
        return _model(1.0 if layer in ELEMENTWISE_LAYERS else MODULE_LENGTH, False, layer not in SMOOTH_LAYERS)
    exact = call.operator in EXACT
    length = 1.0 if exact else accumulation_length(call)
    return _model(length, exact, call.operator in SELECTIVE)


@lru_cache(maxsize=1024)
def _model(length: float, exact: bool, selective: bool) -> ErrorModel:
    return ErrorModel(length, exact, selective)


def rounding(model: ErrorModel, output: TensorRow, target: TensorRow) -> float:
    """Return the relative error that one correct execution may have against another."""
    eps = epsilon(output.dtype, target.dtype)
    if eps == 0:
        return 0.0
    if model.exact:
        return eps if output.dtype != target.dtype else 0.0
    accumulated = min(eps, FLOAT32_EPSILON)
    return eps + accumulated * (8.0 + 2.0 * math.sqrt(model.length))


def origin(model: ErrorModel, output: TensorRow, target: TensorRow) -> str:
    """Return in words where the rounding part of a tolerance comes from."""
    return _origin(model.length, model.exact, output.dtype, target.dtype)


@lru_cache(maxsize=1024)
def _origin(length: float, exact: bool, output: str, target: str) -> str:
    known = [dtype for dtype in dict.fromkeys((output, target)) if epsilon(dtype)]
    coarser = max(known, key=epsilon, default="")
    if not coarser:
        return f"{output}: exact"
    if exact:
        return "an operator that only selects or moves values is exact" + (
            f", but for the cast to {coarser}" if len(known) > 1 else ""
        )
    return f"eps({coarser}) = {epsilon(coarser):.1e}, sums of {length:.0f} terms"


MULTIPLES = 8.0
"""Multiples of the noise floor from which a difference is an error."""

NARROWEST = 8.0
"""By how much a measured floor may narrow what the error model takes for explained: which of several inputs an error
came by is not measured, and another device's noise need not come by the same."""

FURTHEST = 16.0
"""Inputs that differ by more than this many times what they did when the floor was measured: the floor does not
say what becomes of such a difference (a network is linear only for small ones), the error model does."""


@dataclass(slots=True)
class Measured:
    """The noise of one output of one call: relative errors, the greatest of all floor recordings."""

    error: float = 0.0
    inherited: float = 0.0
    """Of the inputs."""


@dataclass(slots=True)
class NoiseFloor:
    """The floor of a reference, by its calls."""

    outputs: dict[tuple[int, int, int, str], Measured] = field(default_factory=dict)
    """By step, rank, position in the step, name of the output."""
    own: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By operator and dtype: the greatest error of a call whose inputs were equal."""
    growth: dict[tuple[str, str, int], float] = field(default_factory=lambda: defaultdict(float))
    """By operator, dtype and step: the greatest growth of an error from the inputs to an output."""

    def add(self, diffs: Iterable[OperatorDiff]) -> None:
        """Take in how the calls of a floor recording differ from the reference's."""
        for diff in diffs:
            if diff.reference_seq is None or diff.kind not in {"op", "module"}:
                continue
            for output in diff.outputs:
                if output.error is None or output.error == float("inf"):
                    continue
                measured = self.outputs.setdefault((diff.step, diff.rank, diff.reference_seq, output.name), Measured())
                measured.error = max(measured.error, output.error)
                measured.inherited = max(measured.inherited, diff.inherited or 0.0)
                operator = diff.reference_name, output.dtype
                if not diff.inherited:
                    self.own[operator] = max(self.own[operator], output.error)
                else:
                    kind = (*operator, diff.step)
                    self.growth[kind] = max(self.growth[kind], output.error / diff.inherited)

    def tolerance(
        self, call: Call, name: str, target_dtype: str, model: tuple[float, float], inherited: float
    ) -> tuple[float, float] | None:
        """Return (own rounding, what the inputs explain) as relative errors; None where nothing was measured.

        `model` holds the same two figures of the error model, `inherited` the relative error of the inputs. Of a
        target in a coarser dtype the reference's floor says nothing.
        """
        row, output = call.row, call.outputs[name]
        measured = self.outputs.get((row.step, row.rank, row.seq, name))
        if measured is None or epsilon(target_dtype) > epsilon(output.dtype):
            return None
        own = max(model[0], MULTIPLES * self.own.get((row.name, output.dtype), 0.0))
        if not 0.0 < inherited <= FURTHEST * measured.inherited:
            return own, model[1]
        growth = self.growth.get((row.name, output.dtype, row.step), 0.0)
        return own, max(MULTIPLES * max(measured.error, growth * inherited), model[1] / NARROWEST)
