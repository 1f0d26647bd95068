"""`replay`: the time that the judged steps would take if events had other lengths.

The host is one line of time. Where one of its events is shortened, everything after it comes earlier. A kernel starts
when its launch has been made and its stream is free. Where the host waited for the device, it goes on when the last
kernel that it had launched has ended. What lies between events of the host stays as long as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.events import Integers, Kind, Timeline
from jumar.timeline.model.joins import launches
from jumar.timeline.spans import Spans

Numbers = npt.NDArray[np.float64]
DEVICE = (Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is otherwise."""

    host: Spans
    """Time of the host that is shortened."""
    host_factor: float
    """What is left of it, 0 to 1 and more."""
    factors: Numbers
    """For each event of the timeline what is left of its length; of the device's events only these count."""


def unchanged(timeline: Timeline) -> Change:
    """Return the change that changes nothing."""
    return Change(host=Spans.none(), host_factor=1.0, factors=np.ones(len(timeline.events)))


def replay(timeline: Timeline, start_ns: int, end_ns: int, change: Change) -> float:
    """Return the nanoseconds that the window would take."""
    host = _Host(change.host, change.host_factor)
    kernels = _kernels(timeline, start_ns, end_ns)
    waits = _waits(timeline, start_ns, end_ns)
    if not len(kernels):
        return host.at(end_ns) - host.at(start_ns)
    device = _Device(timeline, kernels, change.factors)
    # A wait that ends when the next launch begins comes before it.
    order = np.argsort(np.concatenate([timeline.events.end_ns[waits], device.launched]), kind="stable")
    begin = host.at(start_ns)
    for index in order.tolist():
        if index < len(waits):
            device.wait(int(waits[index]), timeline, host)
        else:
            device.run(index - len(waits), host)
    return max(host.at(end_ns), device.end_of(end_ns)) - begin


class _Host:
    """The host's time: when what was at `t` is now."""

    def __init__(self, shortened: Spans, factor: float) -> None:
        self._starts, self._ends = shortened.starts, shortened.ends
        lengths = (shortened.ends - shortened.starts) * (1 - factor)
        self._before = np.concatenate([[0.0], np.cumsum(lengths)])
        self._left = 1 - factor
        self.delay = 0.0

    def at(self, time_ns: int) -> float:
        """Return the new time of what was at this time."""
        index = int(np.searchsorted(self._starts, time_ns, "right"))
        saved = float(self._before[index])
        if index and time_ns < self._ends[index - 1]:
            saved -= float(self._ends[index - 1] - time_ns) * self._left
        return time_ns - saved + self.delay


class _Device:
    """The streams of the device: when each is free, before and now."""

    def __init__(self, timeline: Timeline, kernels: Integers, factors: Numbers) -> None:
        events = timeline.events
        self.launched = _launches(timeline, kernels)
        self._starts, self._ends = events.start_ns[kernels].tolist(), events.end_ns[kernels].tolist()
        self._lengths = (events.duration_ns[kernels] * factors[kernels]).tolist()
        self._lanes = events.lane[kernels].tolist()
        self._free_before: dict[int, int] = {}
        self._free: dict[int, float] = {}
        self._last_before, self._last = 0, 0.0

    def run(self, index: int, host: _Host) -> None:
        """Start a kernel when its stream is free and its launch is made."""
        lane, start = self._lanes[index], self._starts[index]
        launch = int(self.launched[index])
        queued = self._free_before.get(lane, -1) + 1000 >= start
        latency = 0 if queued else start - launch
        begin = max(host.at(launch) + latency, self._free.get(lane, 0.0))
        end = begin + self._lengths[index]
        self._free[lane], self._free_before[lane] = end, self._ends[index]
        self._last, self._last_before = max(self._last, end), max(self._last_before, self._ends[index])

    def wait(self, position: int, timeline: Timeline, host: _Host) -> None:
        """Let the host go on when what it launched has ended, if that is what it waited for."""
        start, end = int(timeline.events.start_ns[position]), int(timeline.events.end_ns[position])
        if not start < self._last_before <= end:
            return
        goes_on = max(host.at(start), self._last) + (end - self._last_before)
        host.delay += goes_on - host.at(end)

    def end_of(self, end_ns: int) -> float:
        """Return when the device is done, where that was in the window before, too; 0 where it went on after it."""
        return self._last if self._last_before <= end_ns else 0.0


def _kernels(timeline: Timeline, start_ns: int, end_ns: int) -> Integers:
    """Return the events of the device that begin in the window, by begin."""
    events = timeline.events
    inside = (events.start_ns >= start_ns) & (events.start_ns < end_ns)
    return np.flatnonzero(timeline.of(*DEVICE) & timeline.on("device") & inside)


def _waits(timeline: Timeline, start_ns: int, end_ns: int) -> Integers:
    events = timeline.events
    inside = (events.start_ns >= start_ns) & (events.start_ns < end_ns)
    return np.flatnonzero(timeline.of(Kind.WAIT) & timeline.on("host") & inside)


def _launches(timeline: Timeline, kernels: Integers) -> Integers:
    """Return when the host launched each kernel; its own begin where that is not known."""
    starts, pairs = timeline.events.start_ns, launches(timeline)
    found = starts.copy()
    found[pairs[:, 1]] = np.minimum(starts[pairs[:, 0]], found[pairs[:, 1]])
    return np.asarray(found[kernels], np.int64)
