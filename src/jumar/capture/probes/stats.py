"""Statistics of tensors: minimum, maximum, mean, L2 norm over the finite elements, NaN and Inf counts.

On the CPU (and on an emulated device, whose memory is the CPU's) four passes over blocks that fit the cache
give all six numbers of a tensor that is finite; only others take the careful way. Small tensors are copied
into one buffer and reduced together when the step ends: calling PyTorch or NumPy costs more than their
elements do. On a real device one small tensor of six numbers is computed per tensor and all are read back
once a step; its norm is summed in float32, so one below 1e-19 may read as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import memmove

import numpy as np
import torch

from jumar.capture.notes.calls import Call, Seen, Statistics, packed
from jumar.capture.notes.memory import address_of, as_array, borrowed, dense, host_view
from jumar.capture.probes.base import Probe
from jumar.recording import sketch

_EMPTY = packed((None, None, None, None, 0, 0))
_NO_SIX = {torch.complex32, torch.complex64, torch.complex128}
SMALL = sketch.LANES
"""Elements up to which a tensor is reduced together with others."""
_BLOCK = 1 << 17
"""Elements of 512 KB: later passes over a block find it in the second-level cache (measured)."""
TINY = 1e-36
"""A sum of squares in float32 below this may have lost elements to underflow."""
_HUGE, _TINY = 1e15, 1e-18
"""Magnitudes beyond which squares or their sums may leave float32's range; they are taken in float64."""


class StatsProbe(Probe):
    """Fills `Seen.statistics`; when the step ends at the latest."""

    def __init__(self) -> None:
        self._pending: list[tuple[Seen, torch.Tensor]] = []
        self._copies: list[Seen] = []
        self._small = SmallTensors(_reduce_small)

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Compute the statistics, or start to."""
        if seen.twin is not None:
            self._copies.append(seen)
            return
        if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
            return
        size = tensor.numel()
        if not size:
            seen.statistics = _EMPTY
            return
        if seen.statistics is not None:  # taken by another probe in passing
            return
        on_host = host_view(tensor)
        if on_host is None:
            self._pending.append((seen, device_statistics(tensor)))
        elif size <= SMALL and is_plain(seen, on_host):
            self._small.add(seen, on_host, size)
        else:
            seen.statistics = packed(host_statistics(on_host))

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Reduce what is small, and read back what was computed on devices, one transfer a device."""
        self._small.finish()
        by_device: dict[torch.device, list[tuple[Seen, torch.Tensor]]] = {}
        for seen, six in self._pending:
            by_device.setdefault(six.device, []).append((seen, six))
        self._pending = []
        for group in by_device.values():
            for (seen, _), numbers in zip(group, torch.stack([six for _, six in group]).tolist(), strict=True):
                seen.statistics = packed(_from_device(numbers, math.prod(seen.shape)))
        for seen in self._copies:
            assert seen.twin is not None
            seen.statistics = seen.twin.statistics
        self._copies = []


def is_plain(seen: Seen, tensor: torch.Tensor) -> bool:
    """Tell whether the memory of a tensor holds its elements as float32, one after the other."""
    layout = seen.layout
    return layout.contiguous and layout.dtype is torch.float32 and not tensor.is_neg()


class SmallTensors:
    """Copies of small float32 tensors, one after the other, that are reduced together by `reduce`.

    That is given the notes, where in the values the elements of each begin, and the values.
    """

    def __init__(self, reduce: Callable[[list[Seen], list[int], np.ndarray], None]) -> None:
        self._reduce = reduce
        self._buffer = np.empty(1 << 16, np.float32)
        self._address = self._buffer.ctypes.data
        self._seen: list[Seen] = []
        self._starts: list[int] = []
        self._end = 0

    def add(self, seen: Seen, tensor: torch.Tensor, size: int) -> None:
        """Copy a contiguous, non-empty tensor of the host with `size` elements."""
        start, end = self._end, self._end + size
        if end > self._buffer.size:
            self._buffer = np.concatenate((self._buffer, np.empty_like(self._buffer)))
            self._address = self._buffer.ctypes.data
        # NOTE: a call of NumPy or PyTorch takes three times as long for as little (measured)
        memmove(self._address + 4 * start, address_of(tensor), 4 * size)
        self._seen.append(seen)
        self._starts.append(start)
        self._end = end

    def finish(self) -> None:
        """Reduce the copies and forget them."""
        if self._seen:
            with np.errstate(all="ignore"):  # NaN and Inf are looked for afterwards
                self._reduce(self._seen, self._starts, self._buffer[: self._end])
            self._seen, self._starts, self._end = [], [], 0


def _reduce_small(tensors: list[Seen], starts: list[int], values: np.ndarray) -> None:
    """Fill in the statistics of tensors whose elements lie one after the other."""
    lowest = np.minimum.reduceat(values, starts)
    highest = np.maximum.reduceat(values, starts)
    exact = values.astype(np.float64)
    sums = np.add.reduceat(exact, starts)
    squares = np.add.reduceat(np.square(exact, out=exact), starts)
    sizes = np.diff(starts, append=values.size)
    columns = starts, sizes, lowest, highest, sums / sizes, np.sqrt(squares)
    numbers = zip(tensors, *(np.asarray(column).tolist() for column in columns), strict=True)
    for seen, start, size, minimum, maximum, mean, norm in numbers:
        if math.isfinite(norm):
            seen.statistics = packed((minimum, maximum, mean, norm, 0, 0))
        else:
            seen.statistics = packed(_carefully(values[start : start + size], 1))


def host_statistics(tensor: torch.Tensor) -> Statistics:
    """Return the statistics of a non-empty CPU tensor (any shape, strides and dtype)."""
    flat, repeats = dense(tensor)
    if flat.dtype in _NO_SIX:
        flat = flat.to(torch.complex128).abs()
    elif flat.dtype is not torch.float32:
        flat = flat.to(torch.float32 if flat.dtype in (torch.float16, torch.bfloat16) else torch.float64)
    size = flat.numel()
    if size == 1:
        return _of_one(flat.item(), repeats)
    plain = flat.dtype is torch.float32 and flat.is_contiguous() and not flat.is_neg()
    lowest, highest, total, squares = math.inf, -math.inf, 0.0, 0.0
    for block in blocks_of(flat, size):
        values = borrowed(block) if plain else as_array(block)
        minimum, maximum = float(minimum_of(values)), float(maximum_of(values))
        # NOTE: NaN and Inf are among the extremes, so that one look at these tells of all elements
        extreme = max(-minimum, maximum)
        if extreme and not _TINY < extreme < _HUGE:
            return _carefully(as_array(flat), repeats)
        lowest, highest = min(lowest, minimum), max(highest, maximum)
        total += block.sum().item()
        squares += torch.dot(block, block).item()
    return lowest, highest, total / size, math.sqrt(squares * repeats), 0, 0


def blocks_of(flat: torch.Tensor, size: int) -> Sequence[torch.Tensor]:
    """Return the `size` elements of one dimension as blocks that fit the cache; up to one and a half stay one block."""
    return (flat,) if size <= _BLOCK + _BLOCK // 2 else flat.split(_BLOCK)  # type: ignore[no-untyped-call]


minimum_of = np.minimum.reduce
maximum_of = np.maximum.reduce


def _of_one(value: float, repeats: int) -> Statistics:
    if math.isfinite(value):
        return value, value, value, abs(value) * math.sqrt(repeats), 0, 0
    is_nan = math.isnan(value)
    return None, None, None, None, is_nan * repeats, (not is_nan) * repeats


def _carefully(values: np.ndarray, repeats: int) -> Statistics:
    """Return the statistics where elements may be NaN or Inf, or their squares leave float32's range."""
    # NOTE: NumPy's isfinite and selection take 0.3 ms for a million elements, PyTorch's 4 to 8 ms (measured).
    finite = values[np.isfinite(values)]
    if finite.size < values.size:  # a mask, mostly: what is left may be well behaved
        num_nan = int(np.count_nonzero(np.isnan(values)))
        counts = num_nan * repeats, (values.size - finite.size - num_nan) * repeats
        if not finite.size:
            return None, None, None, None, *counts
        minimum, maximum, mean, l2, _, _ = host_statistics(torch.from_numpy(finite))
        return minimum, maximum, mean, None if l2 is None else l2 * math.sqrt(repeats), *counts
    exact = finite.astype(np.float64)
    minimum, maximum = float(exact.min()), float(exact.max())
    scale = max(abs(minimum), abs(maximum)) or 1.0
    exact /= scale
    l2 = scale * math.sqrt(float(np.square(exact).sum()) * repeats)
    return minimum, maximum, scale * float(exact.mean()), l2, 0, 0


def device_statistics(tensor: torch.Tensor) -> torch.Tensor:
    """Return, on the tensor's device and without waiting: minimum, maximum, sum, L2, NaN and Inf counts (float32)."""
    values = tensor.detach()
    if values.is_complex():
        values = values.abs()
    values = values.reshape(-1).to(torch.float32)
    nan = torch.isnan(values)
    finite = torch.isfinite(values)
    zeroed = torch.where(finite, values, 0.0)
    return torch.stack(
        (
            torch.where(finite, values, math.inf).min(),
            torch.where(finite, values, -math.inf).max(),
            zeroed.sum(),
            torch.linalg.vector_norm(zeroed),
            nan.sum(dtype=torch.float32),
            finite.logical_not().sum(dtype=torch.float32),
        )
    )


def _from_device(numbers: Sequence[float], size: int) -> Statistics:
    minimum, maximum, total, l2, num_nan, num_not_finite = numbers
    num_finite = size - round(num_not_finite)
    counts = round(num_nan), round(num_not_finite) - round(num_nan)
    if num_finite <= 0:
        return None, None, None, None, *counts
    return minimum, maximum, total / num_finite, l2, *counts
