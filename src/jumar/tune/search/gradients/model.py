"""What a split is computed from: `Gradient`s in the order in which they are ready, and the `Link` that reduces them.

A collective over m bytes takes α + m / bandwidth (Hockney's model; R. W. Hockney, Parallel Computing 20, 1994).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jumar.base.errors import InputError, UsageError
from jumar.base.findings import Json

ALL_REDUCE = "c10d::allreduce_"
"""What the bank's tasks of gradients are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """The gradient of one parameter."""

    name: str
    size_bytes: int
    ready_ns: int
    """When it is there, from the moment the backward pass reaches the model."""
    place: int
    """Of its parameter in the order of `model.parameters()`."""
    dtype: str = "float32"

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values."""
        return asdict(self)


def in_ready_order(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Return the gradients, the first that is ready first; of two at one time the last parameter first."""
    return sorted(gradients, key=lambda one: (one.ready_ns, -one.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What an all-reduce costs: α + bytes / bandwidth."""

    latency_s: float
    bandwidth: float
    """Bytes a second."""
    residual: float = 0.0
    """Root of the mean squared relative error of the fit; 0 for a link that was given."""
    samples: tuple[tuple[int, float], ...] = ()
    """(bytes, median seconds) that it was fitted to."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Link:
        """Rebuild a link from `to_json`."""
        return cls(**{**data, "samples": tuple((int(size), float(time)) for size, time in data["samples"])})

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values."""
        return {**asdict(self), "samples": [[size, time] for size, time in self.samples]}

    def seconds(self, size_bytes: float) -> float:
        """Return how long an all-reduce over so many bytes takes."""
        return self.latency_s + size_bytes / self.bandwidth

    def __str__(self) -> str:
        """`212 us + bytes / 1.18 GB/s`."""
        return f"{self.latency_s * 1e6:.3g} us + bytes / {self.bandwidth / 1e9:.3g} GB/s"


def fit_link(samples: Sequence[tuple[int, Sequence[float]]]) -> Link:
    """Fit α and bandwidth to measured times (bytes, seconds of each repetition) by least squares.

    What is minimised is the relative error of each size's median, so that small sizes, which tell α, count as much as
    large ones. α is not negative. Raises InputError where the sizes are fewer than two, or larger ones take no longer.
    """
    if len(samples) < 2:
        raise InputError(f"a link must be fitted to two sizes or more; got {len(samples)}. Measure more sizes.")
    medians = tuple((size, statistics.median(times)) for size, times in samples)
    times = np.array([time for _, time in medians])
    parts = np.stack([np.ones(len(medians)), np.array([float(size) for size, _ in medians])], axis=1) / times[:, None]
    (latency, slope), *_ = np.linalg.lstsq(parts, np.ones(len(medians)), rcond=None)
    if latency < 0:
        latency, slope = 0.0, float(parts[:, 1].sum() / (parts[:, 1] ** 2).sum())
    if slope <= 0:
        raise InputError(
            "larger all-reduces must take longer; the measured times do not grow with the size "
            f"({medians[0][1] * 1e6:.3g} us for {medians[0][0]} bytes, {medians[-1][1] * 1e6:.3g} us for "
            f"{medians[-1][0]}). Measure again on a quieter machine, or give the link with --allreduce."
        )
    residual = math.sqrt(float(np.mean((parts @ np.array([latency, slope]) - 1) ** 2)))
    return Link(latency_s=float(latency), bandwidth=float(1 / slope), residual=residual, samples=medians)


_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_RATES = {"GB/s": 1e9, "MB/s": 1e6, "GiB/s": 2.0**30, "MiB/s": 2.0**20}


def parse_link(text: str) -> Link:
    """Return the link of `200us,10GB/s`. Raises UsageError."""
    latency, separator, rate = (part.strip() for part in text.partition(","))
    try:
        link = Link(latency_s=_quantity(latency, _TIMES), bandwidth=_quantity(rate, _RATES))
    except ValueError:
        link = Link(latency_s=-1.0, bandwidth=0.0)
    if not separator or link.latency_s < 0 or link.bandwidth <= 0:
        raise UsageError(f'--allreduce must be LATENCY,BANDWIDTH such as 200us,10GB/s; got "{text}". Write both.')
    return link


def _quantity(text: str, units: Mapping[str, float]) -> float:
    """Return a number with one of these units. Raises ValueError for anything else."""
    unit = max((unit for unit in units if text.endswith(unit)), key=len, default="")
    value = float(text.removesuffix(unit)) * units[unit] if unit else math.nan
    if not math.isfinite(value):
        raise ValueError(text)
    return value
