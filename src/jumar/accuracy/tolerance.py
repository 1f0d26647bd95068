"""What two correct devices may differ by: the error model behind every verdict.

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
from dataclasses import dataclass
from functools import lru_cache

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import EXACT, SELECTIVE, names
from jumar.accuracy.scales import accumulation_length
from jumar.recording.schema import TensorRow

EPSILON = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
}
"""Machine epsilon by dtype (IEEE 754, OCP FP8): the distance from 1 to the next number."""

STATISTICS_FLOOR = 2.0**-22
"""Devices sum the statistics themselves in another order, some in float32."""

MODULE_LENGTH = float(1 << 16)
"""A module is many operators: its rounding is that of a sum of this length."""

ELEMENTWISE = names("CELU ELU GELU Hardswish LogSigmoid Mish SELU SiLU Sigmoid Softplus Softsign Tanh")
"""Classes of `torch.nn` that are one smooth function of each element."""


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
def epsilon(*dtypes: str) -> float:
    """Return the machine epsilon of the coarsest of the dtypes; 0 for integers and bool."""
    return max(EPSILON.get(dtype, 0.0) for dtype in dtypes)


def error_model(call: Call) -> ErrorModel:
    """Return the error model of a call, from its operator and shapes."""
    if call.row.kind != "op" or call.homes:  # a module, or a region of operators
        elementwise = call.row.kind == "module" and call.row.module_type in ELEMENTWISE
        return _model(1.0 if elementwise else MODULE_LENGTH, False, not elementwise)
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
    accumulated = min(eps, EPSILON["float32"])
    return eps + accumulated * (8.0 + 2.0 * math.sqrt(model.length))


def origin(model: ErrorModel, output: TensorRow, target: TensorRow) -> str:
    """Return in words where the rounding part of a tolerance comes from."""
    return _origin(model.length, model.exact, output.dtype, target.dtype)


@lru_cache(maxsize=1024)
def _origin(length: float, exact: bool, output: str, target: str) -> str:
    dtypes = [dtype for dtype in dict.fromkeys((output, target)) if dtype in EPSILON]
    coarser = max(dtypes, key=lambda dtype: EPSILON[dtype], default="")
    if not coarser:
        return f"{output}: exact"
    if exact:
        return "an operator that only selects or moves values is exact" + (
            f", but for the cast to {coarser}" if len(dtypes) > 1 else ""
        )
    return f"eps({coarser}) = {EPSILON[coarser]:.1e}, sums of {length:.0f} terms"
