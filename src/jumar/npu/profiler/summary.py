"""Figures of a run for people: memory, conversions, compiles, host operators, time.

    with watch() as watching:
        ...; watching.end_step()
    print(watching.summary())

Watching follows the ledger, so every operator takes the general path: about three times the emulator's overhead.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jumar.npu.core.devices import num_visible
from jumar.npu.core.state import STATE
from jumar.npu.dispatch.policy import runs_on_host
from jumar.npu.formats.ledger import ledger
from jumar.npu.formats.ledger.ledger import Counts, Execution
from jumar.npu.profiler.collect.executions import current_software, operator_shape
from jumar.npu.runtime.memory import max_memory_allocated, max_memory_reserved, mem_get_info
from jumar.soc.estimate import Timeline, operator_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """The most that one device held, in bytes."""

    index: int
    allocated_bytes: int
    reserved_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run on the emulated device."""

    soc: str
    num_steps: int
    memory: Sequence[DeviceMemory]
    """Of the devices that held anything."""
    counts: Counts
    recompiling: Sequence[str]
    """Sentences on what is compiled again after the first step."""
    host_operators: Mapping[str, int]
    """Calls by operator that the host carried out without an NPU kernel."""
    step_us: float | None
    """Estimated time of a step, the median of all but the first; None without a complete step."""
    assumed: Sequence[str]
    """Figures of the chip that the estimate assumes."""


@dataclass(slots=True)
class Watching:
    """A run under way."""

    timeline: Timeline
    num_steps: int = 0
    host_operators: Counter[str] = field(default_factory=Counter)
    assumed: set[str] = field(default_factory=set)

    def end_step(self) -> None:
        """Say that a step has ended."""
        self.num_steps += 1
        ledger.mark_step()
        self.timeline.step(str(self.num_steps))

    def see(self, execution: Execution) -> None:
        """Take in one operator; called by the ledger."""
        name = execution.event.operator
        if runs_on_host(name):
            self.host_operators[name] += 1
        cost = operator_cost(operator_shape(execution), STATE.profile, current_software())
        self.timeline.issue(cost, compiled=execution.compiled, device=execution.event.device_index)
        self.assumed.update(cost.assumed)

    def summary(self) -> Summary:
        """Return the figures so far."""
        self.timeline.synchronise()
        times = [step.duration_us for step in self.timeline.steps()[: self.num_steps]]
        return Summary(
            soc=STATE.soc,
            num_steps=self.num_steps,
            memory=[found for index in range(num_visible()) if (found := _memory(index)).allocated_bytes],
            counts=ledger.counts(),
            recompiling=ledger.recompiling(),
            host_operators=dict(self.host_operators.most_common()),
            step_us=statistics.median(times[1:] or times) if times else None,
            assumed=sorted(self.assumed),
        )


def _memory(index: int) -> DeviceMemory:
    return DeviceMemory(
        index=index,
        allocated_bytes=max_memory_allocated(index),
        reserved_bytes=max_memory_reserved(index),
        capacity_bytes=mem_get_info(index)[1],
    )


@contextlib.contextmanager
def watch() -> Iterator[Watching]:
    """Watch the device within the block."""
    watching = Watching(Timeline(current_software().prices))
    watching.timeline.step("0")
    ledger.reset_counts()
    with ledger.follow(watching.see):
        yield watching
