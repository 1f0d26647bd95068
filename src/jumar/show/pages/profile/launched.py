"""The device's time that calls of the host started, by the launches inside of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind, Timeline
from jumar.timeline.model.joins import launches

DEVICE = (Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE)


def device_ns(timeline: Timeline, rows: Integers) -> npt.NDArray[np.float64]:
    """Return for each of these calls (positions of events) the nanoseconds of the device's events that it launched.

    A launch belongs to the innermost of the calls that holds it.
    """
    found = np.zeros(len(rows))
    pairs = launches(timeline)
    pairs = pairs[timeline.of(*DEVICE)[pairs[:, 1]]]
    if len(pairs):
        owners = _innermost(timeline, rows, pairs[:, 0])
        known = owners != nesting.NO_PARENT
        np.add.at(found, owners[known], timeline.events.duration_ns[pairs[known, 1]].astype(float))
    return found


def _innermost(timeline: Timeline, rows: Integers, calls: Integers) -> Integers:
    """Return for each launching call the place in `rows` of the innermost call that holds it or is it; -1 for none."""
    events = timeline.events
    both = np.unique(np.concatenate([rows, calls]))
    both = both[nesting.in_order(events.lane[both].astype(np.int64), events.start_ns[both], events.duration_ns[both])]
    holders = nesting.parents(events.lane[both].astype(np.int64), events.start_ns[both], events.duration_ns[both])
    places = np.full(len(events), nesting.NO_PARENT, np.int64)
    places[rows] = np.arange(len(rows))
    holder = nesting.nearest(holders, places[both] != nesting.NO_PARENT)
    answers = np.full(len(events), nesting.NO_PARENT, np.int64)
    answers[both] = np.where(holder == nesting.NO_PARENT, nesting.NO_PARENT, places[both[holder]])
    return answers[calls]
