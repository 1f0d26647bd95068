"""Memory in a timeline: the peak of each device, and what is in use at the end of each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.events import Counter, StepWindow, Timeline


def device_peaks(timeline: Timeline) -> dict[str, int]:
    """Return for each device (`npu:0`) the most bytes that were taken from it, or in use where only that is known."""
    peaks = {one.device: max(one.peak_reserved_bytes, one.peak_bytes) for one in timeline.allocations}
    for counter in timeline.counters:
        what, _, device = counter.name.partition(" ")
        if counter.unit == "bytes" and ":" in device and what in {"memory", "reserved", "allocated"}:
            peaks[device] = max(peaks.get(device, 0), int(counter.values.max()))
    return peaks


def at_step_ends(counter: Counter, steps: Sequence[StepWindow]) -> npt.NDArray[np.float64]:
    """Return the last value of a counter before the end of each step; NaN before its first one. Shape (steps,)."""
    ends = np.array([step.end_ns for step in steps], np.int64)
    place = np.searchsorted(counter.times_ns, ends, "right") - 1
    return np.where(place >= 0, counter.values[np.maximum(place, 0)], np.nan)
