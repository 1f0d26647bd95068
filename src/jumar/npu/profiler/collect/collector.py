"""Watch a run: the ledger's operators, PyTorch's own events of the host, marks, memory, garbage collections.

Nothing is estimated here. What is kept is small: shapes, times, numbers.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from jumar.npu.core.overloads import tensors_in
from jumar.npu.formats.ledger import ledger
from jumar.npu.formats.ledger.operands import outputs_of
from jumar.npu.profiler.collect.executions import operator_shape
from jumar.npu.runtime.memory import memory_allocated, memory_reserved
from jumar.npu.runtime.mstx import MarkRecord, subscribe
from jumar.soc.estimate import OperatorShape

CLOCK_READINGS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to watch."""

    host: bool = True
    device: bool = True
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    wants_domain: Callable[[str], bool] = lambda _domain: False
    gc_threshold_ms: float | None = None


class OperatorSeen(NamedTuple):
    """One operator of the device; times are `time.perf_counter_ns`."""

    shape: OperatorShape
    compiled: bool
    start_ns: int
    end_ns: int
    told_ns: int
    """When the watching of it was over: the profile's own work is not the program's."""
    thread: int
    device: int


class StepSeen(NamedTuple):
    """A step begins."""

    name: str
    start_ns: int


@dataclass(slots=True)
class Allocation:
    """Memory of a result."""

    name: str
    size_bytes: int
    start_ns: int
    allocated: int
    reserved: int
    device: int
    end_ns: int = -1
    end_allocated: int = 0
    end_reserved: int = 0
    watch: Any = None


@dataclass(slots=True)
class Watched:
    """All that was seen between `start` and `stop`."""

    start_ns: int
    epoch_ns: int
    """Wall clock minus `time.perf_counter_ns`: PyTorch's events use the former."""
    end_ns: int = 0
    seen: list[OperatorSeen | StepSeen] = field(default_factory=list)
    marks: list[Any] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    collections: list[tuple[int, int, int]] = field(default_factory=list)
    """Garbage collections: start, end, thread."""
    host_events: list[Any] = field(default_factory=list)


class Collector:
    """Watches between `start` and `stop`, in all threads."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.watched: Watched | None = None
        self._stack = contextlib.ExitStack()
        self._host: Any = None
        self._gc_start_ns = 0

    @property
    def is_running(self) -> bool:
        """Whether it watches now."""
        return self.watched is not None and not self.watched.end_ns

    def start(self) -> None:
        """Begin to watch."""
        options = self.options
        if options.host:
            self._host = _host_profile(options)
            self._host.__enter__()
        start_ns = time.perf_counter_ns()
        self.watched = Watched(start_ns, wall_offset_ns())
        # NOTE: the ledger comes last in the stack and so ends first: stopping PyTorch's profiler runs no operators.
        self._stack.enter_context(subscribe(self._mark))
        if options.gc_threshold_ms is not None and options.host:
            gc.callbacks.append(self._collection)
            self._stack.callback(gc.callbacks.remove, self._collection)
        self._stack.enter_context(ledger.follow(self._operator))

    def stop(self) -> Watched:
        """End watching and return what was seen."""
        watched = self.watched
        assert watched is not None, "stop follows start"
        watched.end_ns = time.perf_counter_ns()
        self._stack.close()
        if self._host is not None:
            self._host.__exit__(None, None, None)
            watched.host_events = list(self._host.kineto_results.events())
            self._host = None
        return watched

    def step(self, name: str) -> None:
        """Mark that a step begins."""
        if self.is_running and self.watched is not None:
            self.watched.seen.append(StepSeen(name, time.perf_counter_ns()))

    def _operator(self, execution: ledger.Execution) -> None:
        watched, event = self.watched, execution.event
        if watched is None:
            return
        shape = operator_shape(execution)
        if self.options.profile_memory:
            self._allocations(watched, execution)
        thread = threading.get_native_id()
        seen = OperatorSeen(
            shape, execution.compiled, event.start_ns, event.end_ns, time.perf_counter_ns(), thread, event.device_index
        )
        watched.seen.append(seen)

    def _allocations(self, watched: Watched, execution: ledger.Execution) -> None:
        event = execution.event
        strided = (item for item in tensors_in(event.args) if item.layout is torch.strided)
        known = {item.untyped_storage()._cdata for item in strided}
        for _, tensor in outputs_of(event):
            if tensor.is_cpu or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            if storage._cdata in known or not storage.nbytes():
                continue
            known.add(storage._cdata)
            index = event.device_index
            kept = Allocation(
                event.operator.partition(".")[0],
                storage.nbytes(),
                event.end_ns,
                memory_allocated(index),
                memory_reserved(index),
                index,
            )
            kept.watch = weakref.ref(storage, _releaser(kept))
            watched.allocations.append(kept)

    def _mark(self, record: MarkRecord) -> None:
        if self.watched is not None and self.options.wants_domain(record.domain):
            self.watched.marks.append(record)

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        now = time.perf_counter_ns()
        if phase == "start":
            self._gc_start_ns = now
        elif self.watched is not None and now - self._gc_start_ns >= (self.options.gc_threshold_ms or 0) * 1e6:
            self.watched.collections.append((self._gc_start_ns, now, threading.get_native_id()))


def wall_offset_ns() -> int:
    """Return the wall clock minus `time.perf_counter_ns`, to about a microsecond.

    The clocks are read one after the other, and the system may give the processor away in between: of several readings
    the one that took least counts. An offset that is wrong by 0.1 ms parts half of the operators from their host calls.
    """
    return min(_clock_reading() for _ in range(CLOCK_READINGS))[1]


def _clock_reading() -> tuple[int, int]:
    """Return how long a reading of both clocks took, and the offset that it gives."""
    before = time.perf_counter_ns()
    wall = time.time_ns()
    after = time.perf_counter_ns()
    return after - before, wall - (before + after) // 2


def _releaser(allocation: Allocation) -> Callable[[Any], None]:
    def released(_: Any) -> None:
        allocation.watch = None
        allocation.end_ns = time.perf_counter_ns()
        allocation.end_allocated = memory_allocated(allocation.device)
        allocation.end_reserved = memory_reserved(allocation.device)

    return released


def _host_profile(options: Options) -> Any:
    """Return PyTorch's own profiler of the host, which sees the calls above the device's operators."""
    return torch.autograd.profiler.profile(
        use_cpu=True,
        use_kineto=True,
        record_shapes=options.record_shapes,
        with_stack=options.with_stack,
        with_flops=options.with_flops,
        with_modules=options.with_modules,
        profile_memory=False,
    )
