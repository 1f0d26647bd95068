"""A random-sign projection of a tensor to 64 numbers, from which the distance of two tensors is estimated.

Element i of a tensor (its position in logical, row-major order) is added to bucket `buckets(i)` with the
sign `signs(i)`: a count sketch (Charikar, Chen, Farach-Colton 2002) whose squared length is the AMS
estimate of the squared L2 norm (Alon, Matias, Szegedy 1996). Both functions are integer arithmetic on i
alone, so that every device computes the same ones, and the projection is linear: the sketch of a
difference is the difference of the sketches, and the sketches of shards or partial sums add up.

    lane(i)   = i mod 2039                        (a prime: rows, columns and heads share no lane)
    bucket(i) = (lane + shift(lane div 64)) mod 64
    sign(i)   = tile[i]                           for the first 260,992 elements
              = turn(b) · tile[start(b) + p]      beyond, in blocks b of 130,496 elements, p the place in it

`tile`, `shift`, `turn` and `start` come from `mix`, a 32-bit integer hash. The standard deviation of an
estimated L2 norm is 1/√(2·64), 9 %, of it; jumar docs sketches has the proof. Tensors of at most 64 elements
are kept exactly, up to signs. Elements that are not finite count as 0, everything is cast to float32
first, a complex number is two elements. Imports NumPy: import this module only where values are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

SIZE = 64
"""Numbers in a sketch."""

NUM_BYTES = 4 * SIZE

LANES = 2039
NUM_SUMS = 2048
"""Sums by lane as they are folded, the last ones beyond `LANES`."""
TILE = 128 * LANES
BLOCK = 64 * LANES
"""Elements that share one `start` and `turn`; the first two blocks are the tile itself."""

RELATIVE_STD = 1.0 / math.sqrt(2 * SIZE)
"""Standard deviation of an estimated distance, relative to the distance."""

ROUNDING = 2.0**-20
"""What two devices that add in another order may differ by, relative to the L2 norm of the tensor: float32 sums of
terms of both signs (measured: at most 2⁻²¹·⁹ between NumPy and PyTorch, from 65 to 10⁸ elements)."""

CONFIDENCE = 0.999
"""Share of distances that lie within `error_bound` of their estimate."""

_SLACK = 0.5
"""Half the estimate: 5.7 standard deviations. Of a difference in many elements, 3 of 100,000 are further off (χ² with
64 degrees of freedom); jumar docs sketches has the proofs, also for differences in a few elements."""

Vector = npt.NDArray[np.float32]


def mix(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a well mixed 32-bit number for each number below 2³² (an xor-multiply hash after C. Wellons).

    Every product stays below 2⁶³, so that signed 64-bit integers of any framework give the same bits.
    """
    x = numbers & 0xFFFFFFFF
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & 0xFFFFFFFF
    x = x ^ (x >> 15)
    x = (x * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


@cache
def tile() -> Vector:
    """Return the signs of the first `TILE` elements as float32 (1 MB, computed once, read-only)."""
    signs = 1.0 - 2.0 * ((mix(np.arange(TILE, dtype=np.int64)) >> 13) & 1)
    return _frozen(signs.astype(np.float32))


@cache
def fold() -> npt.NDArray[np.int64]:
    """Return (32, 64) lanes: row g holds, by bucket, the lanes of group g. The last ones are beyond `LANES`."""
    group, bucket = np.divmod(np.arange(-(-LANES // SIZE) * SIZE), SIZE)
    lanes = group * SIZE + (bucket - _shifts()[group]) % SIZE
    return _frozen(lanes.reshape(-1, SIZE))


@cache
def _shifts() -> npt.NDArray[np.int64]:
    shifts = mix(np.arange(SIZE, dtype=np.int64) + 0x5EED_0000) >> 26
    shifts[0] = 0  # the first 64 elements keep their places
    return shifts


@lru_cache(maxsize=1 << 16)
def block(number: int) -> tuple[int, float]:
    """Return (place in the tile at which the signs of a block begin, factor on all of them)."""
    if number < TILE // BLOCK:
        return number * BLOCK, 1.0
    first = int(mix(np.array([number + 0x2000_0000]))[0])
    second = int(mix(np.array([number + 0x4000_0000]))[0])
    return first % (TILE - BLOCK), 1.0 - 2.0 * ((second >> 13) & 1)


def signs(indices: npt.NDArray[np.int64]) -> Vector:
    """Return the sign, 1 or -1, of each element index."""
    numbers, places = np.divmod(indices, BLOCK)
    unique, inverse = np.unique(numbers, return_inverse=True)
    known = [block(int(number)) for number in unique]
    starts = np.array([start for start, _ in known], dtype=np.int64)[inverse]
    turns = np.array([turn for _, turn in known], dtype=np.float32)[inverse]
    found: Vector = tile()[starts + places] * turns
    return found


def buckets(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the bucket, 0 to 63, of each element index."""
    lanes = indices % LANES
    found: npt.NDArray[np.int64] = (lanes + _shifts()[lanes // SIZE]) % SIZE
    return found


def project(array: npt.NDArray[Any]) -> Vector:
    """Return the projection of an array of any shape and dtype, its elements in logical order."""
    return project_flat(_as_float32(array))


def project_flat(flat: Vector) -> Vector:
    """Return the projection of contiguous float32 elements in one dimension."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = _project(flat)
        if not math.isfinite(found.sum()):
            flat = _finite(flat)
            found = _project(flat)
        if not math.isfinite(found.sum()):
            found = _project(flat.astype(np.float64))
        return narrow(found)


def project_shard(array: npt.NDArray[Any], whole: Sequence[int], start: Sequence[int]) -> Vector:
    """Return what a part contributes to the projection of the whole tensor.

    `whole` is the whole's shape and `start` the index in it of the part's first element. The projections of
    parts that cover the whole once add up to its projection. Raises ValueError when the part reaches beyond.
    """
    if len(whole) != array.ndim or len(start) != array.ndim:
        raise ValueError(f"a part of {len(whole)} dimensions was expected at {tuple(start)}; got {array.ndim}")
    if any(begin < 0 or begin + size > end for begin, size, end in zip(start, array.shape, whole, strict=True)):
        raise ValueError(f"a part of shape {array.shape} at {tuple(start)} reaches beyond {tuple(whole)}")
    steps = np.cumprod([1, *reversed(whole[1:])])[::-1] if array.ndim else np.ones(0, dtype=np.int64)
    indices = np.zeros((), dtype=np.int64)
    for begin, size, step in zip(start, array.shape, steps, strict=True):
        indices = indices[..., None] + (begin + np.arange(size, dtype=np.int64)) * int(step)
    flat = _finite(_as_float32(array))
    numbers = np.ascontiguousarray(indices).reshape(-1)
    if np.iscomplexobj(array):
        numbers = (2 * numbers[:, None] + np.arange(2)).reshape(-1)
    weights = flat.astype(np.float64) * signs(numbers)
    sums = np.zeros(SIZE)
    np.add.at(sums, buckets(numbers), weights)
    return narrow(sums)


def fold_lanes(sums: npt.NDArray[np.float64]) -> Vector:
    """Return the 64 buckets of each row of sums by lane: (n, `NUM_SUMS`) to (n, 64).

    The sum of a bucket is taken in float64 and in the order of lanes, so that many rows and one give the same.
    """
    return narrow(_folded(sums))


def _folded(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = sums[:, fold()].sum(1)
    return found


def _project(flat: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the projection of values whose signed sums are finite in their dtype; others show as not finite."""
    return _fold_blocks(flat[place : place + BLOCK] for place in range(0, flat.size, BLOCK))


def _fold_blocks(blocks: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
    """Return the projection of values that come block by block; all but the last one are whole."""
    sums = np.zeros((1, NUM_SUMS))
    for number, values in enumerate(blocks):
        add_block(sums[0], values, number)
    found: npt.NDArray[np.float64] = _folded(sums)[0]
    return found


def add_block(sums: npt.NDArray[np.float64], values: npt.NDArray[Any], number: int) -> None:
    """Add the signed values of one block (all of them, in one dimension) to `NUM_SUMS` sums by lane.

    Within a block they are added in their own dtype.
    """
    start, turn = block(number)
    ones = tile()[start : start + values.size]
    rows = values.size // LANES
    whole = rows * LANES
    if rows:
        # NOTE: one pass of einsum is twice as fast as a product and a sum over it (131,072 elements, measured).
        pair = values[:whole].reshape(rows, LANES), ones[:whole].reshape(rows, LANES)
        part = np.einsum("rl,rl->l", *pair)
        if whole < values.size:
            part[: values.size - whole] += values[whole:] * ones[whole:]
    else:
        part = values * ones
    if turn > 0:
        sums[: part.size] += part
    else:
        sums[: part.size] -= part


def _as_float32(array: npt.NDArray[Any]) -> Vector:
    flat = np.ascontiguousarray(array).reshape(-1)
    if np.iscomplexobj(flat):
        flat = flat.view(flat.real.dtype)
    with np.errstate(over="ignore"):
        return flat.astype(np.float32, copy=False)


def _finite(flat: Vector) -> Vector:
    return np.where(np.isfinite(flat), flat, np.float32(0))


def narrow(sums: npt.NDArray[Any]) -> Vector:
    """Return sums as float32; what is beyond its range becomes its greatest number."""
    if sums.dtype == np.float64:
        limit = float(np.finfo(np.float32).max)
        sums = np.clip(sums, -limit, limit)
    found: Vector = sums.astype(np.float32, copy=False)
    return found


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def pack(projection: npt.NDArray[Any]) -> bytes:
    """Return a projection as it is stored: 64 little-endian float32."""
    return projection.astype("<f4", copy=False).tobytes()


def unpack(sketch: bytes) -> Vector:
    """Return the 64 numbers of a sketch. Raises ValueError when it has another length."""
    if len(sketch) != NUM_BYTES:
        raise ValueError(f"a sketch has {NUM_BYTES} bytes; got {len(sketch)}")
    return np.frombuffer(sketch, "<f4").astype(np.float32, copy=False)


def sketch_of(array: npt.NDArray[Any]) -> bytes:
    """Return the sketch of an array of any shape and dtype."""
    return pack(project(array))


def sketch_of_parts(read: Callable[[int, int], npt.NDArray[Any]], size: int) -> bytes:
    """Return the sketch of `size` elements that `read(start, stop)` gives: for arrays greater than the memory."""
    if size <= BLOCK or np.iscomplexobj(read(0, 1)):
        return sketch_of(read(0, size))
    parts = (read(start, min(size, start + BLOCK)) for start in range(0, size, BLOCK))
    return pack(narrow(_fold_blocks(_finite(_as_float32(part)) for part in parts)))


def add(*sketches: bytes) -> bytes:
    """Return the sketch of the sum of tensors (partial sums, or shards made by `project_shard`)."""
    parts = np.stack([unpack(sketch) for sketch in sketches])
    return pack(narrow(parts.astype(np.float64).sum(0)))


def l2_distance(first: bytes, second: bytes) -> float:
    """Return the estimate of ‖first - second‖₂, without the non-finite elements. Its expected square is exact."""
    difference = unpack(first).astype(np.float64) - unpack(second)
    return math.sqrt(float(difference @ difference))


def l2_norm(sketch: bytes) -> float:
    """Return the estimate of the L2 norm of a tensor."""
    numbers = unpack(sketch).astype(np.float64)
    return math.sqrt(float(numbers @ numbers))


def error_bound(estimate: float, l2_first: float, l2_second: float) -> float:
    """Return how far `l2_distance` may be off: half the estimate, and what the sketches themselves were rounded by.

    The true distance is within the bound for a share of `CONFIDENCE` of all changes, or more.
    """
    return _SLACK * estimate + ROUNDING * max(l2_first, l2_second)


def relative_l2(reference: bytes, target: bytes, l2_reference: float) -> float:
    """Return the estimate of ‖target - reference‖₂ / ‖reference‖₂, given the exact norm; infinite where that is 0."""
    distance = l2_distance(reference, target)
    if distance == 0:
        return 0.0
    return distance / l2_reference if l2_reference > 0 else math.inf


def cosine(first: bytes, second: bytes, l2_first: float, l2_second: float) -> float | None:
    """Return the estimate of the cosine of two tensors, given their exact norms; None where one is 0.

    From the distance by the law of cosines: near 1, where it matters, far better than a product of sketches.
    Its error is that of `l2_distance`² over 2·l2_first·l2_second.
    """
    if not l2_first > 0 or not l2_second > 0:
        return None
    return cosine_of(l2_distance(first, second), l2_first, l2_second)


def cosine_of(distance: float, l2_first: float, l2_second: float) -> float:
    """Return the cosine of two tensors with these (positive) norms that are `distance` apart."""
    root = math.sqrt(l2_first) * math.sqrt(l2_second)
    gap, apart = (l2_first - l2_second) / root, distance / root
    return max(-1.0, min(1.0, 1.0 - (apart * apart - gap * gap) / 2.0))
