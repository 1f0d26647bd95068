"""How far one tensor is apart in two recordings: exact, estimated, or bounded.

The best that both sides have is used: whole tensors, else sketches (that of a whole tensor is computed when only
the other side has one) together with the statistics, else statistics alone, else hashes, which tell equal from
not equal and nothing more.

For tensors a (reference) and b (target) with n elements, the statistics give bounds that always hold:

    ‖b - a‖₂ ≥ L = max(|Δl2|, √n·|Δmean|, |Δmax|, |Δmin|)        max|b - a| ≥ max(|Δmax|, |Δmin|, |Δmean|, |Δl2|/√n)

(the triangle and Cauchy-Schwarz inequalities). They say nothing about an upper limit. If, however, the
difference is rounding noise (independent between elements), Δl2, √n·Δmean, Δmax and Δmin each are a draw
from about the noise itself, so that its size for each element is about L. `noise` is that estimate; it is
used only to excuse a difference further on, never to accuse.

A sketch gives an estimate D of ‖b - a‖₂ with a bound on its error (docs/sketches.md). What accuses is the lower end,
D less its bound, or the statistics' bound where that is greater; what excuses (`noise`, `peak`) is the upper end.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jumar.accuracy.arrays import ArrayDistance, Stored, distance
from jumar.accuracy.projections import SketchDistance, saturates, sketch_distance
from jumar.accuracy.results import Evidence, TensorDiff
from jumar.recording.schema import TensorRow, Values
from jumar.recording.sketch import cosine_of, sketch_of, sketch_of_parts

HUGE = 1e30
"""L2 norm up to which no sum of a sketch leaves float32: it is at most √n times the norm."""

LOWER_BOUNDS = "from statistics: the figures are lower bounds; cosine and greatest difference are not known"

OTHER_MASK = "a mask of -Inf on one side, of the least number of the type on the other; who reads it is compared"

LEAST = {"float64": -(2.0**1023), "float32": -(2.0**127), "bfloat16": -(2.0**127), "float16": -(2.0**15)}
"""Half the least finite number by type: what lies below is there to be added to, not to be calculated with."""

NOT_EQUAL = "the hashes differ: not equal, by how much is not known"

CRC_DIGITS = 8
"""Hexadecimal digits of the hash that msprobe writes (CRC-32 of the bytes); Jumar's own has 16."""

OTHER_HASHES = "the recordings hold hashes of two kinds (Jumar's and msprobe's), which tell nothing of each other"

Loader = Callable[[TensorRow], np.ndarray | Stored | None]


@dataclass(slots=True)
class Measure:
    """The distance of one tensor pair; absolute figures."""

    reference: TensorRow
    target: TensorRow
    num: int
    known: bool = False
    """Whether anything can be said; the figures below mean nothing otherwise."""
    l2_error: float = 0.0
    """‖b - a‖₂, or a lower bound of it."""
    max_error: float = 0.0
    """max|b - a|, or a lower bound of it."""
    norm_error: float = 0.0
    """The part of `l2_error` that single elements hardly move: max(|Δl2|, √n·|Δmean|); the same for whole tensors."""
    noise: float = 0.0
    """Size of the difference of one element: exact (root mean square), or the estimate above."""
    l2: float = 0.0
    """Greater of the two L2 norms."""
    greatest: float = 0.0
    """Greatest absolute value on either side."""
    num_nonfinite: int = 0
    target_num_nonfinite: int = 0
    nonfinite_differs: bool = False
    """NaN or Inf on one side only, or hashes that differ: no figure is finite."""
    exact: ArrayDistance | None = None
    sketched: SketchDistance | None = None
    """The estimate, where both sides have a sketch and not both the whole tensor."""
    peak: float = 0.0
    """Greatest difference of an element that is likely where only a few differ; 0 when nothing says so."""
    hashed: bool = False
    """Only hashes are known: equal, or (`nonfinite_differs`) not equal."""
    note: str = ""

    @property
    def rms(self) -> float:
        """Root mean square of the elements."""
        return self.l2 / math.sqrt(self.num) if self.num else 0.0

    @property
    def evidence(self) -> Evidence:
        """What the figures come from."""
        if not self.known:
            return "none"
        if self.exact is not None:
            return "tensors"
        if self.sketched is not None:
            return "sketches"
        return "hashes" if self.hashed else "statistics"

    @property
    def sees_places(self) -> bool:
        """Whether elements that have only changed places would show."""
        return self.exact is not None or self.sketched is not None or self.hashed

    @property
    def equal(self) -> bool:
        """Whether no difference is visible."""
        return self.known and self.max_error == 0 and self.l2_error == 0 and not self.nonfinite_differs

    def error(self, l2_scale: float = 0.0, max_scale: float = 0.0) -> float:
        """Return the error relative to the tensor's own scale, or to the given one where that is greater."""
        if self.nonfinite_differs:
            return math.inf
        # NOTE: plain comparisons take half the time of max(); this runs several times for every tensor.
        l2 = l2_scale if l2_scale > self.l2 else self.l2
        greatest = max_scale if max_scale > self.greatest else self.greatest
        of_l2, of_max = relative(self.l2_error, l2), relative(self.max_error, greatest)
        return of_max if of_max > of_l2 else of_l2

    def relative_noise(self) -> float:
        """Return the likely relative error of the elements: at least `error()` for whole tensors."""
        if self.nonfinite_differs:
            return math.inf
        noise = relative(self.noise, self.rms)
        return max(noise, self.error()) if self.exact is not None or self.sketched is not None else noise


def relative(part: float, whole: float) -> float:
    """Return part / whole; 0 of nothing, inf where the whole is 0."""
    if part == 0:
        return 0.0
    return part / whole if whole > 0 else math.inf


def measure(reference: TensorRow, target: TensorRow, load: tuple[Loader, Loader] | None = None) -> Measure:
    """Return the distance of two tensors, from the values when `load` yields both, else from statistics."""
    result = Measure(reference, target, math.prod(reference.shape))
    if reference.shape != target.shape:
        result.note = f"shapes differ: {list(reference.shape)} against {list(target.shape)}"
        return result
    if masks_by_other_numbers(reference, target) or masks_by_other_numbers(target, reference):
        result.note = OTHER_MASK
        return result
    sketches = reference.sketch, target.sketch
    arrays: tuple[np.ndarray | Stored | None, np.ndarray | Stored | None] = (None, None)
    if load is not None:
        arrays = _arrays(reference, target, load)
        if arrays[0] is not None and arrays[1] is not None and arrays[0].shape == arrays[1].shape:
            return _from_arrays(result, distance(arrays[0], arrays[1]))
        sketches = _sketch(reference, arrays[0]), _sketch(target, arrays[1])
    _from_statistics(result)
    if sketches[0] is not None and sketches[1] is not None and result.l2 > 0:
        _estimate(result, sketches[0], sketches[1])
    elif not result.known and reference.hash and target.hash:
        _from_hashes(result)
    elif not result.known and load is not None and (crc := _checksums(reference, target, arrays)):
        _from_hashes(result, *crc)
    return result


def masks_by_other_numbers(one: TensorRow, other: TensorRow) -> bool:
    """Return whether one side masks with -Inf what the other masks with (about) the least number of its type."""
    if not one.num_inf or one.num_nan or other.num_inf or other.num_nan or other.minimum is None:
        return False
    return other.minimum <= LEAST.get(other.dtype, -math.inf)


def no_tensor(_tensor: TensorRow) -> None:
    """Load nothing: the loader of a recording without whole tensors."""


def _arrays(
    reference: TensorRow, target: TensorRow, load: tuple[Loader, Loader]
) -> tuple[np.ndarray | Stored | None, np.ndarray | Stored | None]:
    """Return the whole tensors that serve: both, or one beside a sketch or a checksum."""
    if load[0] is no_tensor and reference.sketch is None and len(reference.hash) != CRC_DIGITS:
        return None, None
    if load[1] is no_tensor and target.sketch is None and len(target.hash) != CRC_DIGITS:
        return None, None
    return load[0](reference), load[1](target)


def _sketch(tensor: TensorRow, array: np.ndarray | Stored | None) -> bytes | None:
    if tensor.sketch is not None or array is None:
        return tensor.sketch
    return sketch_of(array) if isinstance(array, np.ndarray) else sketch_of_parts(array.read, math.prod(array.shape))


def _estimate(result: Measure, reference: bytes, target: bytes) -> None:
    """Add the estimate of two sketches to what the statistics say."""
    if result.l2 > HUGE and saturates(reference, target):
        return
    found = sketch_distance(reference, target)
    result.sketched = found
    norms = result.reference.l2 or 0.0, result.target.l2 or 0.0
    root = math.sqrt(result.num)
    at_least, at_most = found.at_least(*norms), found.at_most(*norms)
    result.l2_error = max(result.l2_error, at_least)
    result.max_error = max(result.max_error, at_least / root)
    result.noise = max(at_most, result.l2_error) / root
    if found.is_concentrated:
        result.peak = at_most


def _checksums(
    reference: TensorRow, target: TensorRow, arrays: tuple[np.ndarray | Stored | None, np.ndarray | Stored | None]
) -> tuple[str, str] | None:
    """Return the CRC-32 of both sides, of the whole tensor where the other side has msprobe's; None without.

    msprobe takes it over the elements' bytes, so that bfloat16, which is read as float32, has none here.
    """
    found = []
    for tensor, array in zip((reference, target), arrays, strict=True):
        if len(tensor.hash) == CRC_DIGITS:
            found.append(tensor.hash.lower())
        elif array is not None and (values := np.asarray(array)).dtype.name == tensor.dtype:
            found.append(f"{zlib.crc32(np.ascontiguousarray(values).tobytes()):08x}")
    return (found[0], found[1]) if len(found) == len(arrays) and reference.dtype == target.dtype else None


def _from_hashes(result: Measure, mine: str = "", theirs: str = "") -> None:
    mine, theirs = mine or result.reference.hash, theirs or result.target.hash
    if len(mine) != len(theirs):
        result.note = OTHER_HASHES
        return
    result.known = result.hashed = True
    result.nonfinite_differs = mine != theirs
    result.note = NOT_EQUAL if result.nonfinite_differs else ""


def _from_arrays(result: Measure, exact: ArrayDistance) -> Measure:
    result.known = True
    result.exact = exact
    result.l2_error = result.norm_error = math.sqrt(exact.squares)
    result.max_error = exact.max_abs.difference if exact.max_abs is not None else 0.0
    result.noise = result.l2_error / math.sqrt(exact.num) if exact.num else 0.0
    result.l2 = math.sqrt(max(exact.reference_squares, exact.target_squares))
    result.greatest = exact.greatest
    result.num_nonfinite, result.target_num_nonfinite = exact.num_nonfinite, exact.target_num_nonfinite
    result.nonfinite_differs = exact.nonfinite_differs
    return result


def _from_statistics(result: Measure) -> None:
    a, b = result.reference, result.target
    if result.num == 0:
        result.known = True
        result.note = "no elements"
        return
    if a.num_nan is None or b.num_nan is None:
        result.note = "no statistics were taken"
        return
    if a.num_nan or a.num_inf or b.num_nan or b.num_inf:
        result.num_nonfinite = a.num_nan + (a.num_inf or 0)
        result.target_num_nonfinite = b.num_nan + (b.num_inf or 0)
        result.nonfinite_differs = (a.num_nan, a.num_inf) != (b.num_nan, b.num_inf)
    if a.l2 is None or b.l2 is None:
        result.known = bool(result.num_nonfinite or result.target_num_nonfinite)
        result.note = "no finite element" if result.known else "no statistics were taken"
        return
    result.known = True
    _bound(result, a, b)


def _bound(result: Measure, a: TensorRow, b: TensorRow) -> None:
    """Fill in the bounds from minimum, maximum, mean and L2 norm of both sides."""
    # NOTE: `x if x > y else y` and plain names take half the time of max() and tuples; this runs for every tensor.
    low, high, l2 = a.minimum or 0.0, a.maximum or 0.0, a.l2 or 0.0
    other_low, other_high, other_l2 = b.minimum or 0.0, b.maximum or 0.0, b.l2 or 0.0
    result.l2 = l2 if l2 > other_l2 else other_l2
    highest, lowest = high if high > other_high else other_high, low if low < other_low else other_low
    result.greatest = highest if highest > -lowest else -lowest
    d_min, d_max = abs(low - other_low), abs(high - other_high)
    d_mean, d_l2 = abs((a.mean or 0.0) - (b.mean or 0.0)), abs(l2 - other_l2)
    d_ends = d_min if d_min > d_max else d_max
    if not (d_ends or d_mean or d_l2):
        return
    num = result.num
    if result.num_nonfinite or result.target_num_nonfinite:
        num = max(1, num - max(result.num_nonfinite, result.target_num_nonfinite))
    root = math.sqrt(num)
    of_mean = root * d_mean
    result.norm_error = d_l2 if d_l2 > of_mean else of_mean
    result.l2_error = result.noise = result.norm_error if result.norm_error > d_ends else d_ends
    result.max_error = max(d_ends, d_mean, d_l2 / root)


def common_values(reference: Values, target: Values) -> str:
    """Return by what two recordings with different values are compared, in one sentence; empty for the same values."""
    both = {reference, target}
    if len(both) == 1:
        return ""
    if both & {"none", "hash"}:
        what = "they have no values in common"
    elif both == {"sketch", "tensors"}:
        what = "sketches are compared, those of whole tensors computed for it"
    else:
        what = "statistics are compared"
    return f"the reference was recorded with values {reference}, the target with {target}: {what}"


def tensor_diff(name: str, found: Measure, error: float | None = None) -> TensorDiff:
    """Return the public form of a measure. `error` is the judged figure; None for the tensor's own scale."""
    a, b = found.reference, found.target
    exact, sketched, evidence = found.exact, found.sketched, found.evidence
    judged: float | None = found.error() if error is None else error
    if not found.known or (found.hashed and found.nonfinite_differs):
        judged = None
    bounds = found.known and exact is None and not found.hashed
    cosine = l2_relative = None
    if exact is not None:
        cosine, l2_relative = exact.cosine, exact.l2_relative
    elif sketched is not None:
        cosine, l2_relative = _estimates(found, sketched.estimate)
    note = found.note
    if sketched is not None and sketched.estimate and not note:
        note = "from sketches: l2_relative and cosine are estimates, the true distance is within half of it (99.9 %)"
    elif evidence == "statistics" and judged and not note:
        note = LOWER_BOUNDS
    return TensorDiff(
        name=name,
        shape=a.shape,
        target_shape=b.shape,
        dtype=a.dtype,
        target_dtype=b.dtype,
        evidence=evidence,
        error=judged,
        cosine=cosine,
        l2_relative=l2_relative,
        max_abs=exact.max_abs if exact else None,
        max_relative=exact.max_relative if exact else None,
        num_different=exact.num_different if exact else None,
        l2_relative_at_least=relative(found.l2_error, found.l2) if bounds else None,
        max_abs_at_least=found.max_error if bounds else None,
        num_nonfinite=found.num_nonfinite,
        target_num_nonfinite=found.target_num_nonfinite,
        note=note,
    )


def _estimates(found: Measure, apart: float) -> tuple[float | None, float | None]:
    """Return the estimated cosine and relative L2 error of tensors `apart` from each other; None without a norm."""
    l2_a, l2_b = found.reference.l2, found.target.l2
    if not l2_a or not l2_b:
        return None, None
    return cosine_of(apart, l2_a, l2_b), apart / l2_a
