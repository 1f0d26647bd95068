"""Host and device as two clocks: the host issues, the device works through its queue, a sync makes the host wait.

    timeline = Timeline()
    timeline.step("1")
    timeline.issue(cost)            # the host goes on, unless the cost waits
    timeline.synchronise()
    timeline.steps()                # times of each step

All times are estimates, in microseconds from the timeline's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from jumar.soc.estimate.cost import Cost, Kernel
from jumar.soc.estimate.prices import Prices

StreamName = Literal["compute", "communication"]


@dataclass(frozen=True, slots=True)
class HostSpan:
    """One thing the host does: issuing an operator, waiting, compiling, or work of the program itself."""

    name: str
    start_us: float
    end_us: float
    kind: Literal["operator", "wait", "compile", "program"] = "operator"


@dataclass(frozen=True, slots=True)
class KernelSpan:
    """One kernel, or one copy between host and device (`kernel` None), on the device."""

    operator: int
    """Number of the `issue` it belongs to."""
    name: str
    start_us: float
    end_us: float
    wait_us: float
    """Since the stream's last work ended."""
    stream: StreamName
    kernel: Kernel | None
    device: int = 0
    step: str = ""
    """The step in which the host issued it."""

    @property
    def duration_us(self) -> float:
        """Length of the span."""
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """One step. `computing` and `communicating` are unions of spans on the device; `free_us` is the rest."""

    name: str
    start_us: float
    end_us: float
    host_us: float
    """Host work of the step, waits left out."""
    computing_us: float
    communicating_us: float
    uncovered_us: float
    """Communication without computing at the same time."""
    preparing_us: float
    """From the step's start on the host to its first kernel."""
    is_estimate: Literal[True] = True

    @property
    def duration_us(self) -> float:
        """From the step's start to the end of its last work, on the host or the device."""
        return self.end_us - self.start_us

    @property
    def free_us(self) -> float:
        """Time in which the device did nothing."""
        return max(0.0, self.duration_us - self.computing_us - self.uncovered_us)


@dataclass(slots=True)
class _Step:
    name: str
    start_us: float
    end_us: float = 0.0
    host_us: float = 0.0
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class Timeline:
    """Operators in the order the host issues them. Not for use by several threads at once."""

    prices: Prices = field(default_factory=Prices)
    host_us: float = 0.0
    """The host's clock."""
    host: list[HostSpan] = field(default_factory=list)
    device: list[KernelSpan] = field(default_factory=list)
    _free: dict[tuple[int, StreamName], float] = field(default_factory=dict)
    _steps: list[_Step] = field(default_factory=list)
    _num_issued: int = 0

    def issue(self, cost: Cost, *, compiled: bool = False, device: int = 0) -> tuple[float, float]:
        """Let the host issue one operator; return when its host span begins and ends.

        A cost that waits holds the host until the device has done it. `compiled` adds one online compile.
        """
        begin = self.host_us
        if compiled and cost.kernels:
            self._host(f"compile {cost.name}", self.prices.compile_us, "compile")
        self._host(cost.name, cost.host_us, "operator")
        for kernel in cost.kernels:
            stream: StreamName = "communication" if kernel.core == "HCCL" else "compute"
            after = self._free.get((device, "compute"), 0.0) if stream == "communication" else 0.0
            self._run(kernel.type, kernel.duration_us, stream, kernel, device, max(self.host_us, after))
        if cost.transfer_us:
            self._run("MEMCPY_ASYNC", cost.transfer_us, "compute", None, device, self.host_us)
        if cost.waits:
            self._wait(device, cost.name)
        self._num_issued += 1
        return begin, self.host_us

    def program(self, duration_us: float, name: str = "program") -> None:
        """Let the host do work of the program itself: loading data, Python between operators."""
        if duration_us > 0:
            self._host(name, duration_us, "program")

    def synchronise(self, device: int = 0) -> None:
        """Let the host wait until the device has done all it was given."""
        self._wait(device, "synchronize")

    def join(self, device: int = 0) -> None:
        """Let later computing wait for the communication issued so far (`Work.wait`)."""
        until = self._free.get((device, "communication"), 0.0)
        key: tuple[int, StreamName] = (device, "compute")
        self._free[key] = max(self._free.get(key, 0.0), until)

    def step(self, name: str) -> None:
        """Begin a step; the one before ends here."""
        self.end_step()
        self._steps.append(_Step(name, self.host_us, first=len(self.device), last=-1))

    def end_step(self) -> None:
        """End the current step: at the host's clock, or when the device has done the step's work if that is later."""
        if not self._steps or self._steps[-1].last >= 0:
            return
        step = self._steps[-1]
        step.last = len(self.device)
        own = self.device[step.first : step.last]
        step.end_us = max([self.host_us, *(span.end_us for span in own)])

    def steps(self) -> list[StepTimes]:
        """Return the times of every step begun so far.

        Steps overlap where the host runs ahead: a step's device time begins when the one before is done.
        """
        self.end_step()
        found, done_us = [], 0.0
        for step in self._steps:
            own = self.device[step.first : step.last]
            start = max(step.start_us, done_us)
            computing = union((span.start_us, span.end_us) for span in own if span.stream == "compute")
            links = union((span.start_us, span.end_us) for span in own if span.stream == "communication")
            uncovered = _length(links) - _overlap(links, computing)
            first = min((span.start_us for span in own), default=start)
            found.append(
                StepTimes(
                    name=step.name,
                    start_us=start,
                    end_us=max(step.end_us, start),
                    host_us=step.host_us,
                    computing_us=_length(computing),
                    communicating_us=_length(links),
                    uncovered_us=uncovered,
                    preparing_us=max(0.0, first - start),
                )
            )
            done_us = max(done_us, step.end_us)
        return found

    @property
    def end_us(self) -> float:
        """When host and device have both done everything."""
        return max([self.host_us, *self._free.values()])

    def _host(self, name: str, duration_us: float, kind: Literal["operator", "wait", "compile", "program"]) -> None:
        self.host.append(HostSpan(name, self.host_us, self.host_us + duration_us, kind))
        self.host_us += duration_us
        if self._steps and kind != "wait" and self._steps[-1].last < 0:
            self._steps[-1].host_us += duration_us

    def _run(
        self, name: str, duration_us: float, stream: StreamName, kernel: Kernel | None, device: int, ready_us: float
    ) -> None:
        free = self._free.get((device, stream), 0.0)
        start = max(ready_us, free)
        end = start + duration_us
        self._free[device, stream] = end
        step = self._steps[-1].name if self._steps and self._steps[-1].last < 0 else ""
        wait = start - free if free else 0.0
        self.device.append(KernelSpan(self._num_issued, name, start, end, wait, stream, kernel, device, step))

    def _wait(self, device: int, name: str) -> None:
        until = max((end for (owner, _), end in self._free.items() if owner == device), default=0.0)
        duration = max(0.0, until - self.host_us) + self.prices.synchronise_us
        self._host(name, duration, "wait")


Spans = Sequence[tuple[float, float]]


Number = TypeVar("Number", int, float)


def union(spans: Iterable[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    """Return the spans merged where they touch, in order."""
    merged: list[tuple[Number, Number]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length(spans: Spans) -> float:
    return sum(end - start for start, end in spans)


def _overlap(first: Spans, second: Spans) -> float:
    """Return the time that lies in both unions."""
    total, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        total += max(0.0, end - start)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total
