"""`EventLog`: Jumar's own events and counters of one process, in Chrome's trace form when they are written.

Times are nanoseconds since 1970, on the clock that Kineto writes its events on.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

CATEGORY = "jumar"
MOST_EVENTS = 200_000
LANE_OFFSET = 1_000_000_000
"""Added to a thread's number: Jumar's events have lanes of their own. On the lane of Kineto's they would cross its
events by a microsecond, and viewers drop what crosses."""


class Event(NamedTuple):
    """Something that took time."""

    name: str
    start_ns: int
    duration_ns: int
    pid: int
    thread: int
    arguments: Mapping[str, Any]


class Count(NamedTuple):
    """A number at a time."""

    name: str
    unit: str
    time_ns: int
    value: float


class EventLog:
    """Takes events from any thread. The oldest are dropped when there are too many, and `num_dropped` says how many."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._counts: deque[Count] = deque(maxlen=MOST_EVENTS)
        self._lanes: dict[tuple[int, int], str] = {}
        self._num_added = 0

    @property
    def num_dropped(self) -> int:
        """Events that were dropped."""
        return max(self._num_added - MOST_EVENTS, 0)

    @property
    def earliest_ns(self) -> int:
        """Begin of the earliest event; 0 without one."""
        return min((event.start_ns for event in list(self._events)), default=0)

    def add(self, name: str, start_ns: int, duration_ns: int, **arguments: Any) -> None:
        """Take an event of the calling thread."""
        thread = threading.get_native_id()
        if (os.getpid(), thread) not in self._lanes:
            self._lanes[os.getpid(), thread] = f"jumar: {threading.current_thread().name}"
        self.take(Event(name, start_ns, duration_ns, os.getpid(), thread, arguments))

    def take(self, event: Event) -> None:
        """Take an event of another thread or process."""
        self._num_added += 1
        self._events.append(event)

    def forget_steps(self) -> None:
        """Take back the events of steps: they turned out to be none."""
        for event in [event for event in self._events if event.name.startswith("step ")]:
            self._events.remove(event)

    def count(self, name: str, unit: str, time_ns: int, value: float) -> None:
        """Take the value of a counter."""
        self._counts.append(Count(name, unit, time_ns, value))

    def name_lane(self, pid: int, thread: int, name: str) -> None:
        """Name the lane of a thread."""
        self._lanes[pid, thread] = name

    def to_chrome(self, base_ns: int) -> Iterator[dict[str, Any]]:
        """Yield trace events, `ts` and `dur` in microseconds, `ts` since `base_ns`."""
        own = os.getpid()
        for (pid, thread), name in list(self._lanes.items()):
            about = {"ph": "M", "pid": pid, "tid": thread + LANE_OFFSET}
            yield {**about, "name": "thread_name", "args": {"name": name}}
            if pid != own:
                yield {**about, "name": "process_name", "args": {"name": name}}
        for event in list(self._events):
            yield {
                "ph": "X", "cat": CATEGORY, "name": event.name, "pid": event.pid, "tid": event.thread + LANE_OFFSET,
                "ts": _us(event.start_ns - base_ns), "dur": _us(event.duration_ns), "args": dict(event.arguments),
            }  # fmt: skip
        for count in list(self._counts):
            yield {
                "ph": "C", "cat": CATEGORY, "name": count.name, "pid": own, "ts": _us(count.time_ns - base_ns),
                "args": {count.unit: count.value},
            }  # fmt: skip


def _us(time_ns: int) -> float:
    """Return microseconds; the division is of whole numbers, so that 1/1000 µs stays exact where float64 has it."""
    return time_ns // 1000 + (time_ns % 1000) / 1000
