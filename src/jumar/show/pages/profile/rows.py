"""Rows of a drawn timeline: a lane has one row for each depth of its events; events of a row do not overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jumar.timeline.model import nesting
from jumar.timeline.model.events import Events, Integers

MAX_FOLDS = 64
"""Rows that a lane gets beside its depths for events that overlap without nesting; the rest share the last one."""


def in_rows(events: Events) -> tuple[Integers, Integers, Integers]:
    """Return (order, lanes, depths): the events' positions by lane, depth and begin, and lane and depth of each."""
    lanes = events.lane.astype(np.int64)
    order = nesting.in_order(lanes, events.start_ns, events.duration_ns)
    lanes, starts = lanes[order], events.start_ns[order]
    ends = starts + events.duration_ns[order]
    depths = _depths(nesting.parents(lanes, starts, events.duration_ns[order]))
    for _ in range(MAX_FOLDS):
        late = _overlapping(lanes, depths, starts, ends)
        if not late.any():
            break
        deepest = np.zeros(int(lanes.max()) + 1, np.int64)
        np.maximum.at(deepest, lanes, depths)
        depths = np.where(late, deepest[lanes] + 1, depths)
    by_row = np.lexsort((starts, depths, lanes))
    return order[by_row], lanes[by_row], depths[by_row]


def _depths(holders: Integers) -> Integers:
    """Return how many events hold each event."""
    depths = np.zeros(len(holders), np.int64)
    climbing = holders.copy()
    while (held := climbing != nesting.NO_PARENT).any():
        depths[held] += 1
        climbing[held] = holders[climbing[held]]
    return depths


def _overlapping(lanes: Integers, depths: Integers, starts: Integers, ends: Integers) -> npt.NDArray[np.bool_]:
    """Return which events begin before an earlier one of their row has ended."""
    rows = np.lexsort((starts, depths, lanes))
    group = np.cumsum(np.append(0, (np.diff(lanes[rows]) != 0) | (np.diff(depths[rows]) != 0)))
    # A running maximum that starts anew with each row: each row's times lie above those of the row before.
    span = int(ends.max()) + 1 if len(ends) else 1
    reached = np.maximum.accumulate(ends[rows] + group * span)
    late = np.zeros(len(starts), bool)
    late[rows[1:]] = (group[1:] == group[:-1]) & (starts[rows[1:]] + group[1:] * span < reached[:-1])
    return late
