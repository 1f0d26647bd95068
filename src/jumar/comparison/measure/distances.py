"""Measures the distance of one tensor in two recordings: exact, estimated or bounded. The main type is `Measure`.

The best that both sides have is used: whole tensors, else sketches (that of a whole tensor is computed when only
the other side has one) together with the statistics, else statistics alone, else hashes, which tell equal from
not equal and nothing more.

For tensors a (reference) and b (target) with n elements, the statistics give bounds that always hold:

    ‖b - a‖₂ ≥ L = max(|Δl2|, √n·|Δmean|, |Δmax|, |Δmin|)        max|b - a| ≥ max(|Δmax|, |Δmin|, |Δmean|, |Δl2|/√n)

(the triangle and Cauchy-Schwarz inequalities). They say nothing about an upper limit. If, however, the
difference is rounding noise (independent between elements), Δl2, √n·Δmean, Δmax and Δmin each are a draw
from about the noise itself, so that its size for each element is about L. `noise` is that estimate. It only excuses a
difference further on; no divergence is judged by it.

A sketch gives an estimate D of ‖b - a‖₂ with a bound on its error (jumar docs sketches). A divergence is judged by the
lower end, D less its bound, or by the statistics' bound where that is greater. Differences further on are excused by
the upper end (`noise`, `peak`).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from jumar.comparison.measure.loading import Loader, Loaders, no_tensor
from jumar.comparison.model.results import Evidence
from jumar.recording import sketch
from jumar.recording.schema import TensorRow
from jumar.recording.sketch import sketch_of, sketch_of_parts

FEW = 8.0
"""Buckets over which the difference is spread, from which it is in more than a handful of elements. Of many elements
it is 21 with 64 buckets (64 · E[x²]² / E[x⁴] of a normal x), of one element 1."""


@dataclass(frozen=True, slots=True)
class SketchDistance:
    """The distance of two tensors, estimated; absolute figures."""

    estimate: float
    """Of ‖b - a‖₂."""
    spread: float
    """(Σ s²)² / Σ s⁴ over the buckets of the difference: 1 for one element, about 21 for many; 0 for none."""

    @property
    def is_concentrated(self) -> bool:
        """Whether the difference may be in a few elements only."""
        return 0.0 < self.spread < FEW

    def at_least(self, l2_a: float, l2_b: float) -> float:
        """Return what ‖b - a‖₂ is at least, with the confidence of `sketch.error_bound`."""
        if not self.estimate:
            return 0.0
        return max(0.0, self.estimate - sketch.error_bound(self.estimate, l2_a, l2_b))

    def at_most(self, l2_a: float, l2_b: float) -> float:
        """Return what ‖b - a‖₂ is at most, with the same confidence, but for the rounding of the sketches."""
        return self.estimate + sketch.error_bound(self.estimate, 0.0, 0.0) if self.estimate else 0.0


@lru_cache(maxsize=8192)
def sketch_distance(reference: bytes, target: bytes) -> SketchDistance:
    """Return the distance of two sketches. The last few thousand are kept, because the next call reads what this call
    wrote."""
    if reference == target:
        return EQUAL
    difference = np.frombuffer(target, "<f4").astype(np.float64) - np.frombuffer(reference, "<f4")
    squares = difference * difference
    total = float(squares.sum())
    return SketchDistance(math.sqrt(total), total * total / float(squares @ squares)) if total else EQUAL


def saturates(reference: bytes, target: bytes) -> bool:
    """Return whether a bucket of either side left float32: nothing can be said then."""
    limit = float(np.finfo(np.float32).max)
    return any(bool((np.abs(np.frombuffer(side, "<f4")) >= limit).any()) for side in (reference, target))


EQUAL = SketchDistance(0.0, 0.0)


if TYPE_CHECKING:
    from jumar.comparison.measure.arrays import ArrayDistance, Stored

HUGE = 1e30
"""L2 norm up to which no sum of a sketch leaves float32: it is at most √n times the norm."""

OTHER_MASK = "a mask of -Inf on one side, of the type's least number on the other; the calls that read it are compared"

LEAST = {"float64": -(2.0**1023), "float32": -(2.0**127), "bfloat16": -(2.0**127), "float16": -(2.0**15)}
"""Half the least finite number by type: what lies below is there to be added to, not to be calculated with."""

NOT_EQUAL = "the hashes differ: not equal, by how much is not known"

CRC_DIGITS = 8
"""Hexadecimal digits of the hash that msprobe writes (CRC-32 of the bytes); Jumar's own has 16."""

OTHER_HASHES = "the recordings hold hashes of two kinds (Jumar's and msprobe's), which cannot be compared"


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
    evidence: Evidence = "none"
    """What the figures come from."""
    equal: bool = False
    """Whether no difference is visible."""

    @property
    def rms(self) -> float:
        """Root mean square of the elements."""
        return self.l2 / math.sqrt(self.num) if self.num else 0.0

    @property
    def sees_places(self) -> bool:
        """Whether elements that have only changed places would show."""
        return self.exact is not None or self.sketched is not None or self.hashed

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


def measure(reference: TensorRow, target: TensorRow, load: Loaders = None) -> Measure:
    """Return the distance of two tensors, from the values when `load` yields both, else from statistics."""
    result = Measure(reference, target, math.prod(reference.shape))
    if reference.shape != target.shape:
        result.note = f"shapes differ: {list(reference.shape)} against {list(target.shape)}"
        return result
    if masks_by_other_numbers(reference, target) or masks_by_other_numbers(target, reference):
        result.note = OTHER_MASK
        return result
    _fill(result, load)
    if result.known:
        result.evidence = _evidence(result)
        # NOTE: kept, not calculated when asked: comparing asks several times for every tensor.
        result.equal = result.max_error == 0 and result.l2_error == 0 and not result.nonfinite_differs
    return result


def _evidence(result: Measure) -> Evidence:
    if result.exact is not None:
        return "tensors"
    if result.sketched is not None:
        return "sketches"
    return "hashes" if result.hashed else "statistics"


def _fill(result: Measure, load: Loaders) -> None:
    """Find the figures of two tensors of one shape by the best that both sides have."""
    reference, target = result.reference, result.target
    sketches = reference.sketch, target.sketch
    arrays: tuple[np.ndarray | Stored | None, np.ndarray | Stored | None] = (None, None)
    if load is not None:
        arrays = _arrays(reference, target, load)
        if arrays[0] is not None and arrays[1] is not None and arrays[0].shape == arrays[1].shape:
            from jumar.comparison.measure.arrays import distance  # most recordings hold no whole tensors

            _from_arrays(result, distance(arrays[0], arrays[1]))
            return
        sketches = _sketch(reference, arrays[0]), _sketch(target, arrays[1])
    _from_statistics(result)
    if sketches[0] is not None and sketches[1] is not None and result.l2 > 0:
        _estimate(result, sketches[0], sketches[1])
    elif not result.known and reference.hash and target.hash:
        _from_hashes(result)
    elif not result.known and load is not None and (crc := _checksums(reference, target, arrays)):
        _from_hashes(result, *crc)


def masks_by_other_numbers(one: TensorRow, other: TensorRow) -> bool:
    """Return whether one side masks with -Inf what the other masks with (about) the least number of its type."""
    if not one.num_inf or one.num_nan or other.num_inf or other.num_nan or other.minimum is None:
        return False
    return other.minimum <= LEAST.get(other.dtype, -math.inf)


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


def _from_hashes(result: Measure, reference: str = "", target: str = "") -> None:
    reference, target = reference or result.reference.hash, target or result.target.hash
    if len(reference) != len(target):
        result.note = OTHER_HASHES
        return
    result.known = result.hashed = True
    result.nonfinite_differs = reference != target
    result.note = NOT_EQUAL if result.nonfinite_differs else ""


def _from_arrays(result: Measure, exact: ArrayDistance) -> None:
    result.known = True
    result.exact = exact
    result.l2_error = result.norm_error = math.sqrt(exact.squares)
    result.max_error = exact.max_abs.difference if exact.max_abs is not None else 0.0
    result.noise = result.l2_error / math.sqrt(exact.num) if exact.num else 0.0
    result.l2 = math.sqrt(max(exact.reference_squares, exact.target_squares))
    result.greatest = exact.greatest
    result.num_nonfinite, result.target_num_nonfinite = exact.num_nonfinite, exact.target_num_nonfinite
    result.nonfinite_differs = exact.nonfinite_differs


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
