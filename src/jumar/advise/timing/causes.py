"""Which operator of the framework started a kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jumar.advise.timing.profile import Profile
from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind
from jumar.timeline.model.joins import launches

ENGINE = "autograd::engine::evaluate_function: "
NOT_KNOWN = "an operator that is not known"


@dataclass(frozen=True, slots=True)
class Cause:
    """The kernels that one operator started from one line."""

    operator: str
    """`aten::conv2d`, or the node of the backward pass."""
    line: str
    """The user's line, empty where it is not known."""
    nanoseconds: int
    kernels: int


def causes(profile: Profile, kernels: Integers) -> list[Cause]:
    """Return the operators that started these kernels, those with the most time first.

    An operator of the backward pass is named by its node: `ConvolutionBackward0`.
    """
    timeline, events = profile.timeline, profile.timeline.events
    pairs = launches(timeline)
    started = np.full(len(events), -1, np.int64)
    started[pairs[:, 1]] = pairs[:, 0]
    calls = started[kernels]
    named = _operators_of(profile, calls[calls >= 0])
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for call, length in zip(calls.tolist(), events.duration_ns[kernels].tolist(), strict=True):
        group = sums[named.get(call, (NOT_KNOWN, ""))]
        group[0] += length
        group[1] += 1
    ranked = sorted(sums.items(), key=lambda item: -item[1][0])
    return [Cause(operator, line, *numbers) for (operator, line), numbers in ranked]


def _operators_of(profile: Profile, calls: Integers) -> dict[int, tuple[str, str]]:
    """Return name and line of the operator that each call is or lies in: the outermost, in a backward node the node."""
    timeline, events = profile.timeline, profile.timeline.events
    wanted = np.union1d(np.flatnonzero(timeline.of(Kind.OPERATOR) & timeline.on("host")), calls)
    lanes = events.lane[wanted].astype(np.int64)
    wanted = wanted[nesting.in_order(lanes, events.start_ns[wanted], events.duration_ns[wanted])]
    lanes = events.lane[wanted].astype(np.int64)
    holders = nesting.parents(lanes, events.start_ns[wanted], events.duration_ns[wanted])
    places = {int(row): place for place, row in enumerate(wanted)}
    found = {}
    for call in np.unique(calls).tolist():
        chain = [call]
        place = holders[places[call]]
        while place != nesting.NO_PARENT:
            chain.append(int(wanted[place]))
            place = holders[place]
        found[call] = _named(profile, chain)
    return found


def _named(profile: Profile, chain: Sequence[int]) -> tuple[str, str]:
    names = [profile.timeline.name_of(row) for row in chain]
    outer = [name for name in names if not name.startswith(ENGINE)]
    details = [profile.timeline.detail_of(row) for row in chain]
    line = next((detail.stack for detail in details if detail is not None and detail.stack), "")
    return (outer[-1] if outer else names[0].removeprefix(ENGINE)), line
