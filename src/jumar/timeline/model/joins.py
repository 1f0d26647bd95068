"""What started an event: the launch of a kernel, the forward operator of one in the backward pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jumar.timeline.model.events import Integers, Kind, Timeline

Mask = npt.NDArray[np.bool_]


def launches(timeline: Timeline) -> Integers:
    """Return pairs of rows, shape (n, 2): the call of the host and the device's event that share a link.

    Of several calls with one link it is an operator of the framework where one is among them, and the last that begins
    no later; where the clocks disagree, the first.
    """
    events, on_host = timeline.events, timeline.on("host")
    linked = events.link != 0
    calls = linked & on_host
    operators = calls & timeline.of(Kind.OPERATOR)
    calls &= operators | ~np.isin(events.link, events.link[operators])
    pairs, late = _joined(events.link, events.start_ns, calls, linked & ~on_host)
    return np.concatenate([pairs, late])


def forwards(timeline: Timeline) -> Integers:
    """Return pairs of rows, shape (n, 2): an operator of the forward pass and its backward, by sequence number."""
    events = timeline.events
    numbered = (events.sequence >= 0) & timeline.on("host")
    back = numbered & np.isin(events.name, [i for i, name in enumerate(timeline.names) if "Backward" in name])
    return _joined(events.sequence, events.start_ns, numbered & ~back, back)[0]


def _joined(keys: Integers, starts: Integers, sources: Mask, targets: Mask) -> tuple[Integers, Integers]:
    """Return (source, target) of each target by its key: whose source begins no later, and the others."""
    rows, wanted = np.flatnonzero(sources), np.flatnonzero(targets)
    if not len(rows) or not len(wanted):
        return np.empty((0, 2), np.int64), np.empty((0, 2), np.int64)
    rows = rows[np.lexsort((starts[rows], keys[rows]))]
    _, rank = np.unique(np.concatenate([keys[rows], keys[wanted]]), return_inverse=True)
    relative = starts - int(starts.min())
    span = int(relative.max()) + 1
    # Key and time in one number, so that one search finds both.
    place = np.searchsorted(
        rank[: len(rows)] * span + relative[rows], rank[len(rows) :] * span + relative[wanted], "right"
    )
    before, after = rows[np.maximum(place - 1, 0)], rows[np.minimum(place, len(rows) - 1)]
    known = (place > 0) & (keys[before] == keys[wanted])
    late = ~known & (keys[after] == keys[wanted])
    return np.stack([before[known], wanted[known]], axis=1), np.stack([after[late], wanted[late]], axis=1)
