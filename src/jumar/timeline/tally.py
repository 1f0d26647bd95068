"""`Tally`: sums of calls, time and own time by group, of events that come in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind

PIECE = 1 << 19
"""Events that are sorted at one time. A file whose threads are in order needs no more at once."""
KINDS = 16
"""More than the members of `Kind`: group and kind make one number."""

Row = tuple[int, Kind, int, int, int, int]
"""(group, kind, calls, total, own time, longest call); times in nanoseconds"""
MayWait = Callable[[Integers], npt.NDArray[np.bool_]]
"""Groups -> whether these are operators that read a value of a device."""


class OutOfOrder(Exception):
    """An event begins before one of the same thread that has been counted: all events are needed at one time."""


class Tally:
    """Takes events in columns. Events that later ones may lie in are kept, all others are counted and forgotten."""

    def __init__(self, may_wait: MayWait | None = None, piece: int | None = PIECE) -> None:
        self._may_wait = may_wait
        self._piece = piece
        self._waiting: list[tuple[npt.NDArray[Any], ...]] = []
        """(begins, lengths, keys, lanes)"""
        self._size = 0
        self._kept = np.empty((3, 0), np.int64)
        self._reached = np.empty(0, np.int64)
        self._sums = np.zeros((3, 0), np.int64)
        self._longest = np.zeros(0, np.int64)

    def take(
        self,
        starts: Integers,
        durations: Integers,
        groups: Integers,
        kinds: npt.NDArray[np.uint8],
        lanes: Integers,
    ) -> None:
        """Take events; raises OutOfOrder where `piece` is too small for their order."""
        keys = (groups * KINDS + kinds).astype(np.int32)
        # 4 bytes are enough for both, and the peak of memory is in the sorting.
        self._waiting.append((starts, durations, keys, nesting.lanes_of(lanes, kinds).astype(np.int32)))
        self._size += len(starts)
        if self._piece and self._size >= self._piece:
            self._count(is_end=False)

    def finished(self) -> Iterator[Row]:
        """Yield the sums of each group and kind."""
        if self._size:
            self._count(is_end=True)
        calls, total, own = self._sums
        for key in np.flatnonzero(calls):
            group, kind = divmod(int(key), KINDS)
            yield group, Kind(kind), int(calls[key]), int(total[key]), int(own[key]), int(self._longest[key])

    def _count(self, *, is_end: bool) -> None:
        starts, durations, keys, lanes = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting.clear()
        num_kept = self._kept.shape[1]
        self._check_order(starts[num_kept:], lanes[num_kept:])
        order = nesting.in_order(lanes, starts, durations)
        starts = starts[order]  # one after the other, so that not all stand in memory twice
        durations = durations[order]
        keys = keys[order]
        lanes = lanes[order]
        inside = np.zeros((3, len(order)), np.int64)
        known = np.flatnonzero(order < num_kept)
        inside[:, known] = self._kept[:, order[known]]
        holders = nesting.parents(lanes, starts, durations)
        keys = self._with_waits(holders, keys)
        inner = np.flatnonzero((holders != nesting.NO_PARENT) & (order >= num_kept))
        _enclose(inside, holders[inner], durations[inner], keys[holders[inner]] == keys[inner])
        kept = np.empty(0, np.int64) if is_end else nesting.spine(holders, lanes)
        self._add(keys, durations, inside, 1)
        self._add(keys[kept], durations[kept], inside[:, kept], -1)
        self._kept, self._size = inside[:, kept], len(kept)
        self._waiting = [(starts[kept], durations[kept], keys[kept], lanes[kept])] if len(kept) else []
        durations[kept] = 0
        np.maximum.at(self._longest, keys, durations)
        np.maximum.at(self._reached, lanes[kept], starts[kept])

    def _check_order(self, starts: Integers, lanes: Integers) -> None:
        """Raise OutOfOrder for a new event that begins before the last counted one of its lane."""
        missing = int(lanes.max(initial=-1)) + 1 - len(self._reached)
        if missing > 0:
            self._reached = np.append(self._reached, np.full(missing, np.iinfo(np.int64).min))
        if (starts < self._reached[lanes]).any():
            raise OutOfOrder

    def _with_waits(self, holders: Integers, keys: Integers) -> Integers:
        """Return the keys, with the kind WAIT for operators in which the host waits for a device."""
        kinds = (keys % KINDS).astype(np.uint8)
        if self._may_wait is None or not (kinds == Kind.WAIT).any():
            return keys
        waits = nesting.that_wait(holders, kinds, (kinds == Kind.OPERATOR) & self._may_wait(keys // KINDS))
        keys[waits] += Kind.WAIT - Kind.OPERATOR
        return keys

    def _add(self, keys: Integers, durations: Integers, inside: Integers, sign: int) -> None:
        """Count events, or take them back. One of the name of its holder, alone in it, is no call of its own."""
        if not len(keys):
            return
        missing = int(keys.max()) + 1 - len(self._longest)
        if missing > 0:
            self._sums = np.pad(self._sums, ((0, 0), (0, missing)))
            self._longest = np.pad(self._longest, (0, missing))
        inside_ns, num_inside, same_ns = inside
        twice = (num_inside == 1) & (same_ns > 0)
        np.add.at(self._sums[0], keys, sign * (1 - twice))
        np.add.at(self._sums[1], keys, sign * (durations - twice * (same_ns - 1)))
        np.add.at(self._sums[2], keys, sign * (durations - inside_ns))


def _enclose(inside: Integers, holders: Integers, durations: Integers, is_same: npt.NDArray[np.bool_]) -> None:
    """Add events to what their holders hold: time, number, and 1 + length of one with the holder's own name."""
    np.add.at(inside[0], holders, durations)
    np.add.at(inside[1], holders, 1)
    inside[2][holders[is_same]] = durations[is_same] + 1
