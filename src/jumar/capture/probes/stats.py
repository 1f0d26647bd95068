"""Statistics of tensors: minimum, maximum, mean, L2 norm over the finite elements, NaN and Inf counts.

On the CPU (and on an emulated device, whose memory is the CPU's) three passes of PyTorch's vector
kernels give all six numbers of a tensor that is finite; only others take the careful way. On a real
device one small tensor of six numbers is computed per tensor and all are read back once a step; its
norm is summed in float32, so one below 1e-19 may read as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from jumar.capture.calls import Call, Seen, Statistics
from jumar.capture.memory import dense, host_view
from jumar.capture.probes.base import Probe

_EMPTY: Statistics = (None, None, None, None, 0, 0)
_NO_SIX = {torch.complex32, torch.complex64, torch.complex128}
TINY = 1e-36
"""A sum of squares in float32 below this may have lost elements to underflow; it is taken in float64."""


class StatsProbe(Probe):
    """Fills `Seen.statistics`."""

    def __init__(self) -> None:
        self._pending: list[tuple[Seen, torch.Tensor]] = []
        self._by_memory: dict[Any, Seen] = {}
        self._copies: list[tuple[Seen, Seen]] = []

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Compute the statistics, or start to on a device."""
        if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
            return
        if not tensor.numel():
            seen.statistics = _EMPTY
            return
        if seen.memory is not None:
            twin = self._by_memory.setdefault(seen.memory, seen)
            if twin is not seen:  # another view of the same elements
                self._copies.append((seen, twin))
                return
        if seen.statistics is not None:  # taken by another probe in passing
            return
        on_host = host_view(tensor)
        if on_host is not None:
            seen.statistics = host_statistics(on_host)
        else:
            self._pending.append((seen, device_statistics(tensor)))

    def on_step_end(self, calls: Sequence[Call]) -> None:
        """Read back what was computed on devices, one transfer a device."""
        by_device: dict[torch.device, list[tuple[Seen, torch.Tensor]]] = {}
        for seen, six in self._pending:
            by_device.setdefault(six.device, []).append((seen, six))
        self._pending = []
        self._by_memory.clear()
        for group in by_device.values():
            for (seen, _), numbers in zip(group, torch.stack([six for _, six in group]).tolist(), strict=True):
                seen.statistics = _from_device(numbers, math.prod(seen.shape))
        for seen, twin in self._copies:
            seen.statistics = twin.statistics
        self._copies = []


def host_statistics(tensor: torch.Tensor) -> Statistics:
    """Return the statistics of a non-empty CPU tensor (any shape, strides and dtype)."""
    flat, repeats = dense(tensor)
    if flat.dtype in _NO_SIX:
        flat = flat.to(torch.complex128).abs()
    elif flat.dtype is not torch.float32:
        flat = flat.to(torch.float32 if flat.dtype in (torch.float16, torch.bfloat16) else torch.float64)
    if flat.numel() == 1:
        return _of_one(flat.item(), repeats)
    lowest, highest = torch.aminmax(flat)
    minimum, maximum = lowest.item(), highest.item()
    squares = torch.dot(flat, flat).item()
    if not math.isfinite(squares) or squares < TINY:
        return _carefully(flat, repeats)
    mean = flat.sum().item() / flat.numel()
    if not math.isfinite(mean):
        return _carefully(flat, repeats)
    return minimum, maximum, mean, math.sqrt(squares * repeats), 0, 0


def _of_one(value: float, repeats: int) -> Statistics:
    if math.isfinite(value):
        return value, value, value, abs(value) * math.sqrt(repeats), 0, 0
    is_nan = math.isnan(value)
    return None, None, None, None, is_nan * repeats, (not is_nan) * repeats


def _carefully(flat: torch.Tensor, repeats: int) -> Statistics:
    """Return the statistics where elements may be NaN or Inf, or their squares leave float32's range."""
    # NOTE: NumPy's isfinite and selection take 0.3 ms for a million elements, PyTorch's 4 to 8 ms (measured).
    values = flat.numpy()
    finite = values[np.isfinite(values)].astype(np.float64)
    num_nan = int(np.count_nonzero(np.isnan(values))) * repeats
    num_inf = (values.size - finite.size) * repeats - num_nan
    if not finite.size:
        return None, None, None, None, num_nan, num_inf
    minimum, maximum = float(finite.min()), float(finite.max())
    scale = max(abs(minimum), abs(maximum)) or 1.0
    finite /= scale
    l2 = scale * math.sqrt(float(np.square(finite).sum()) * repeats)
    return minimum, maximum, scale * float(finite.mean()), l2, num_nan, num_inf


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
