"""Makes rows of tensors out of arrays, with the statistics that a recording has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jumar.recording.schema import CallRow, Kind, Phase, TensorRow

BLOCK = 1 << 20
"""Elements looked at together, so that memory stays small beside a large tensor that is mapped."""


def tensor_row(name: str, array: np.ndarray, dtype: str = "") -> TensorRow:
    """Return the row of an array: shape, dtype (NumPy's, or the one given) and statistics over its elements."""
    return plain_row(name, array.shape, dtype or str(array.dtype), **statistics(array))


def plain_row(name: str, shape: tuple[int, ...], dtype: str, **figures: Any) -> TensorRow:
    """Return the row of a tensor of which shape and dtype are known, and perhaps `figures`; it counts as contiguous."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return TensorRow(
        name=name,
        shape=tuple(shape),
        dtype=dtype,
        device="",
        stride=tuple(reversed(strides)),
        storage_offset=0,
        contiguous=True,
        **figures,
    )


def statistics(array: np.ndarray) -> dict[str, Any]:
    """Return minimum, maximum, mean and L2 norm over the finite elements, and how many are NaN and Inf."""
    if array.dtype.kind not in "fcbiu":
        return {}
    flat = array.reshape(-1)
    low, high, mean, norm, num_nan, num_finite = math.inf, -math.inf, 0.0, 0.0, 0, 0
    for start in range(0, flat.size, BLOCK):
        values = flat[start : start + BLOCK]
        values = np.abs(values) if values.dtype.kind == "c" else values
        least, greatest = float(values.min()), float(values.max())  # one NaN makes both NaN
        if not math.isfinite(least) or not math.isfinite(greatest):
            num_nan += int(np.count_nonzero(np.isnan(values)))
            values = values[np.isfinite(values)]
            if not values.size:
                continue
            least, greatest = float(values.min()), float(values.max())
        low, high = min(low, least), max(high, greatest)
        num_finite += values.size
        of_block, norm_of_block = _mean_and_norm(values.astype(np.float64), max(abs(least), abs(greatest)))
        mean += (of_block - mean) * (values.size / num_finite)
        norm = math.hypot(norm, norm_of_block)
    found: dict[str, Any] = {"num_nan": num_nan, "num_inf": flat.size - num_finite - num_nan}
    if num_finite:
        found |= {"minimum": low, "maximum": high, "mean": mean, "l2": norm}
    return found


def _mean_and_norm(values: np.ndarray, scale: float) -> tuple[float, float]:
    """Return both. Values whose squares would leave float64 are scaled to 1 before; `scale` is the greatest of them."""
    if not scale:
        return 0.0, 0.0
    if _LEAST_SQUARED < scale < _GREATEST_SQUARED:
        return float(values.mean()), math.sqrt(float(np.dot(values, values)))
    scaled = values / scale
    return scale * float(scaled.mean()), scale * float(np.sqrt(np.square(scaled).sum()))


_LEAST_SQUARED, _GREATEST_SQUARED = 1e-140, 1e140


def call_row(
    name: str,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    dtypes: Mapping[str, str] | None = None,
    *,
    kind: Kind = "op",
    phase: Phase = "forward",
    module_path: str = "",
    module_type: str = "",
    source: str = "",
) -> CallRow:
    """Return a call out of its arrays by tensor name; `Dump` sets its step, rank and numbers."""
    known = dtypes or {}
    return bare_row(
        name,
        tuple(tensor_row(key, array, known.get(key, "")) for key, array in inputs.items()),
        tuple(tensor_row(key, array, known.get(key, "")) for key, array in outputs.items()),
        kind=kind,
        phase=phase,
        module_path=module_path,
        module_type=module_type,
        source=source,
    )


def bare_row(
    name: str,
    inputs: tuple[TensorRow, ...],
    outputs: tuple[TensorRow, ...],
    *,
    kind: Kind = "op",
    phase: Phase = "forward",
    module_path: str = "",
    module_type: str = "",
    source: str = "",
    arguments: str = "",
) -> CallRow:
    """Return a call out of tensor rows; `Dump` sets its step, rank and numbers."""
    return CallRow(
        step=0,
        rank=0,
        seq=0,
        kind=kind,
        phase=phase,
        module_path=module_path,
        module_type=module_type,
        name=name,
        occurrence=-1,
        source=source,
        arguments=arguments,
        inputs=inputs,
        outputs=outputs,
    )
