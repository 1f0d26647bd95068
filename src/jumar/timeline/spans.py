"""`Spans`: disjoint intervals of time, and their union, intersection and difference without a loop over them.

The summed length of events is not time that passed: they overlap. Every figure about time is the length of such a set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.events import Events, Integers

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spans:
    """Half-open intervals [start, end) in nanoseconds: sorted, disjoint, none empty, none touching another."""

    starts: Integers
    ends: Integers

    @classmethod
    def none(cls) -> Spans:
        """Return the empty set."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, starts: Integers, ends: Integers) -> Spans:
        """Return the union of n intervals in any order; those without length count for nothing."""
        keep = ends > starts
        starts, ends = starts[keep], ends[keep]
        if not len(starts):
            return cls.none()
        order = np.argsort(starts, kind="stable")
        starts, reached = starts[order], np.maximum.accumulate(ends[order])
        begins = np.concatenate([[True], starts[1:] > reached[:-1]])
        last = np.concatenate([begins[1:], [True]])
        return cls(starts[begins].astype(np.int64), reached[last].astype(np.int64))

    @classmethod
    def of_events(cls, events: Events, mask: _Mask | Integers | None = None) -> Spans:
        """Return the time during which any of these events ran."""
        starts, lengths = events.start_ns, events.duration_ns
        if mask is not None:
            starts, lengths = starts[mask], lengths[mask]
        return cls.of(starts, starts + lengths)

    @classmethod
    def window(cls, start_ns: int, end_ns: int) -> Spans:
        """Return one interval."""
        return cls.of(np.array([start_ns], np.int64), np.array([end_ns], np.int64))

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        """The length of all, in nanoseconds."""
        return int((self.ends - self.starts).sum())

    def clip(self, start_ns: int, end_ns: int) -> Spans:
        """Return the part inside [start, end)."""
        first = int(np.searchsorted(self.ends, start_ns, "right"))
        last = int(np.searchsorted(self.starts, end_ns, "left"))
        starts, ends = self.starts[first:last], self.ends[first:last]
        return Spans(np.maximum(starts, start_ns), np.minimum(ends, end_ns))

    def __or__(self, other: Spans) -> Spans:
        """Return the union."""
        return Spans.of(np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends]))

    def __and__(self, other: Spans) -> Spans:
        """Return the intersection."""
        return self._combined(other, np.logical_and)

    def __sub__(self, other: Spans) -> Spans:
        """Return the difference."""
        return self._combined(other, lambda own, others: own & ~others)

    def hold(self, times_ns: Integers) -> _Mask:
        """Return for each time whether an interval holds it."""
        return np.searchsorted(self.starts, times_ns, "right") > np.searchsorted(self.ends, times_ns, "right")

    def within(self, starts: Integers, ends: Integers) -> Integers:
        """Return for each window [start, end) the length of these intervals in it, in nanoseconds."""
        return self._before(ends) - self._before(starts)

    def _before(self, times: Integers) -> Integers:
        """Return for each time the length of these intervals before it."""
        lengths = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        begun = np.searchsorted(self.starts, times, "right")
        last_end = np.concatenate(([np.iinfo(np.int64).min], self.ends))[begun]
        before: Integers = lengths[begun] - (np.maximum(last_end, times) - times)
        return before

    def _combined(self, other: Spans, keep: Callable[[_Mask, _Mask], _Mask]) -> Spans:
        """Return the pieces between two neighbouring borders where `keep(in self, in other)` is true."""
        if not len(self):
            return Spans.none()
        borders = np.unique(np.concatenate([self.starts, self.ends, other.starts, other.ends]))
        kept = keep(self.hold(borders[:-1]), other.hold(borders[:-1]))
        return Spans.of(borders[:-1][kept], borders[1:][kept])
