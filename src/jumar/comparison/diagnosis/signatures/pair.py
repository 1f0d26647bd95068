"""`Pair`: two arrays prepared for the signatures, with finite parts as float64 and what is known of the call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.comparison.measure.tolerance import FLOAT32_EPSILON, epsilon

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

MAX_ELEMENTS = 1 << 19
"""Elements examined; of a greater tensor the leading slices. What has a structure shows it in half a million."""

ROUNDING_EPSILONS = 8.0
"""Relative L2 difference, in machine epsilons, that is taken for rounding when the caller knows no tolerance."""

NEGLIGIBLE = 1e-3
"""An element differs when its difference is more than this share of the greatest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of the call that made the arrays; everything may be left out."""

    operator: str = ""
    """Canonical name or aten overload: `aten::mm`."""
    dtype: str = "float32"
    """Coarser dtype of the two sides."""
    rounding: float | None = None
    """Relative L2 difference that rounding explains (a verdict's tolerance); None: from the dtype."""
    num_ranks: int = 1
    dims: tuple[int, ...] = ()
    """Sizes of the call's other tensors' dimensions: where a scale may come from."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the run by name, e.g. {"dropout p": 0.1, "loss scale": 65536, "accumulation steps": 4}."""
    inputs: tuple[Array, ...] = ()
    """The call's inputs in the reference; those of the arrays' shape are asked what the difference depends on."""
    previous_reference: Array | None = None
    previous_target: Array | None = None
    """The same tensor one step earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A reference and a target of one shape. `a`, `b` and `d` are 0 where either side is not finite."""

    raw_a: Array
    raw_b: Array
    a: Floats
    b: Floats
    d: Floats
    finite: npt.NDArray[np.bool_] | None
    """Where both sides are finite; None: everywhere."""
    context: Context
    squares: float
    """Sum of squares of `d`."""
    a_squares: float
    num_elements: int
    """Elements of the whole tensors, of which `a` and `b` may be the leading slices."""

    @property
    def num(self) -> int:
        """Elements examined."""
        return self.a.size

    @property
    def rms(self) -> float:
        """Root mean square of the reference."""
        return math.sqrt(self.a_squares / self.num) if self.num else 0.0

    @property
    def rounding(self) -> float:
        """Relative L2 difference that rounding explains."""
        given = self.context.rounding
        return ROUNDING_EPSILONS * (epsilon(self.context.dtype) or FLOAT32_EPSILON) if given is None else given

    @property
    def relative(self) -> float:
        """Relative L2 difference."""
        return math.sqrt(self.squares / self.a_squares) if self.a_squares else math.inf if self.squares else 0.0

    def explained(self, prediction: Floats, num_parameters: int = 0) -> float:
        """Return the share of the difference's energy that `prediction` of the target accounts for.

        Adjusted for parameters that were fitted (the adjusted coefficient of determination), so that noise is
        explained by none of them; at most 1, and below 0 for a prediction worse than the reference itself.
        """
        left = self.num - num_parameters
        if self.squares <= 0 or left <= 0:
            return 0.0
        rest = self.b - prediction
        return 1.0 - energy(rest) / self.squares * (self.num / left)

    def differs(self) -> npt.NDArray[np.bool_]:
        """Return where the two sides differ by more than rounding and by more than next to nothing."""
        size = np.abs(self.d)
        floor = max(NEGLIGIBLE * float(size.max(initial=0.0)), 0.0)
        return size > np.maximum(self.rounding * np.abs(self.a), floor)


def energy(x: Floats, y: Floats | None = None) -> float:
    """Return the sum of squares of `x`, or of its products with `y`.

    NOTE: not by BLAS, which shares a long product between threads; on a busy machine that is 10 times slower.
    """
    first = x.reshape(-1)
    return float(np.einsum("i,i->", first, first if y is None else y.reshape(-1)))


def pair_of(reference: Array, target: Array, context: Context | None = None) -> Pair:
    """Prepare two arrays of one shape (real or complex, any dtype). Raises ValueError when the shapes differ."""
    if reference.shape != target.shape:
        raise ValueError(f"arrays of one shape are needed; got {reference.shape} and {target.shape}")
    num_elements = int(reference.size)
    raw_a, raw_b = _leading(_real(reference)), _leading(_real(target))
    a, b = raw_a.astype(np.float64), raw_b.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    whole = bool(finite.all())
    if not whole:
        a[~finite] = 0.0
        b[~finite] = 0.0
    d = b - a
    return Pair(
        raw_a=raw_a,
        raw_b=raw_b,
        a=a,
        b=b,
        d=d,
        finite=None if whole else finite,
        context=context or Context(),
        squares=energy(d),
        a_squares=energy(a),
        num_elements=num_elements,
    )


def _real(array: Array) -> Array:
    """Return a complex array with a last dimension of two parts."""
    return np.stack([array.real, array.imag], axis=-1) if np.iscomplexobj(array) else np.asarray(array)


def _leading(array: Array) -> Array:
    """Return the leading slices that hold at most `MAX_ELEMENTS` elements, or the array itself."""
    while array.size > MAX_ELEMENTS and array.ndim > 1:
        rows = MAX_ELEMENTS // (array.size // array.shape[0])
        array = array[:rows] if rows else array[0]
    return array[:MAX_ELEMENTS] if array.ndim == 1 else array


def axis_word(axis: int, shape: tuple[int, ...]) -> str:
    """Return `dimension 1 (of size 16)`."""
    return f"dimension {axis} (of size {shape[axis]})"
