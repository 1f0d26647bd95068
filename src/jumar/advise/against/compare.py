"""`compare_timelines`: two runs of a program, part by part and operator by operator, with intervals.

A difference counts when its interval does not hold 0. The interval is the 95 % percentile bootstrap of the difference
of medians over the steps after the first (Efron and Tibshirani, An Introduction to the Bootstrap, 1993), drawn with a
fixed seed: the same two profiles give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jumar.advise.timing.profile import WORK, outermost
from jumar.base.errors import InputError
from jumar.operators import short_name
from jumar.timeline.decompose import Decomposition, decompose
from jumar.timeline.model.events import Kind, Timeline

Numbers = npt.NDArray[np.float64]

NUM_DRAWS = 2000
LEAST_STEPS = 3
"""After the first, on each side: fewer give no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure on both sides, in milliseconds a step."""

    name: str
    before_ms: float
    after_ms: float
    low_ms: float
    """The interval of `after - before`."""
    high_ms: float

    @property
    def change_ms(self) -> float:
        """By how much it became slower; negative when faster."""
        return self.after_ms - self.before_ms

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the interval does not hold 0."""
        return self.low_ms > 0 or self.high_ms < 0

    @property
    def share(self) -> float:
        """The change as a share of what it was before; 0 where it was nothing."""
        return self.change_ms / self.before_ms if self.before_ms else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileComparison:
    """Two profiles of one rank each. Medians over the steps after the first."""

    before: str
    after: str
    num_steps: tuple[int, int]
    """Steps that were compared, without the first, on both sides."""
    step: Change
    parts: Sequence[Change]
    """The parts of the step; empty where one side has a device's side and the other has not."""
    operators: Sequence[Change]
    """Own or whole time by name, the greatest change first; names of one side only have 0 on the other."""
    notes: Sequence[str] = ()
    """What could not be compared, one sentence each."""

    def is_slower(self, share: float) -> bool:
        """Return whether the step became slower by more than this share, even at the low end of the interval."""
        return self.step.low_ms > share * self.step.before_ms

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        rows: Mapping[str, Any] = asdict(self)
        return dict(rows)


def compare_timelines(before: Timeline, after: Timeline) -> ProfileComparison:
    """Return what changed from one profile to another.

    Operators have one name on both sides where the devices are of one kind; between two kinds (GPU and NPU) only the
    operators of the host are compared, which PyTorch names. Raises InputError where a side has fewer than four steps.
    """
    sides = decompose(before), decompose(after)
    for timeline, one in zip((before, after), sides, strict=True):
        if len(one.steps) <= LEAST_STEPS:
            raise InputError(
                f"{timeline.source} must have more than {LEAST_STEPS} steps to be compared; it has {len(one.steps)}. "
                "Profile with step marks (`jumar profile`, or profiler.step())."
            )
    lengths = [_lengths(one) for one in sides]
    notes = [*before.lost, *after.lost]
    same_side = sides[0].has_device == sides[1].has_device
    if not same_side:
        notes.append(
            "One profile has a device's side and the other has not: only the steps and operators are compared."
        )
    return ProfileComparison(
        before=before.source,
        after=after.source,
        num_steps=(len(lengths[0]), len(lengths[1])),
        step=change("step", *lengths),
        parts=_parts(*sides) if same_side else (),
        operators=_operators(before, after),
        notes=tuple(notes),
    )


def change(name: str, before: Numbers, after: Numbers) -> Change:
    """Return the change of the median of a figure, with its interval. Times in milliseconds, one a step."""
    random = np.random.default_rng(0)
    draws = [np.median(one[random.integers(0, len(one), (NUM_DRAWS, len(one)))], axis=1) for one in (after, before)]
    low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5])
    return Change(
        name=name,
        before_ms=float(np.median(before)),
        after_ms=float(np.median(after)),
        low_ms=float(low),
        high_ms=float(high),
    )


def _lengths(side: Decomposition) -> Numbers:
    return np.array([one.step.duration_ns / 1e6 for one in side.steps[1:]], float)


def _parts(before: Decomposition, after: Decomposition) -> Sequence[Change]:
    found = []
    for part in before.words:
        sides = [np.array([one.parts[part] / 1e6 for one in side.steps[1:]], float) for side in (before, after)]
        if any(one.any() for one in sides):
            found.append(change(part, *sides))
    return sorted(found, key=lambda one: -abs(one.change_ms))


def _operators(before: Timeline, after: Timeline) -> Sequence[Change]:
    kinds = WORK if before.device == after.device else (Kind.OPERATOR,)
    sides = [_by_name(timeline, kinds) for timeline in (before, after)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    nothing = [np.zeros(len(timeline.steps) - 1) for timeline in (before, after)]
    found = [change(name, *(side.get(name, zero) for side, zero in zip(sides, nothing, strict=True))) for name in names]
    return sorted(found, key=lambda one: -abs(one.change_ms))


def _by_name(timeline: Timeline, kinds: Sequence[Kind]) -> dict[str, Numbers]:
    """Return operator -> milliseconds in each step after the first. Operators inside others are left out."""
    events = timeline.events
    positions = outermost(events, np.flatnonzero(timeline.of(*kinds)))
    starts = np.array([step.start_ns for step in timeline.steps], np.int64)
    ends = np.array([step.end_ns for step in timeline.steps], np.int64)
    begins = events.start_ns[positions]
    step = np.searchsorted(starts, begins, "right") - 1
    inside = (step > 0) & (begins < ends[step])
    positions, step = positions[inside], step[inside] - 1
    num_steps = len(starts) - 1
    found: dict[str, Numbers] = {}
    for name in np.unique(events.name[positions]):
        mine = events.name[positions] == name
        sums: Numbers = np.bincount(step[mine], events.duration_ns[positions[mine]] / 1e6, num_steps).astype(float)
        word = timeline.names[name]
        key = f"aten::{short_name(word)}" if word.startswith("aten::") else word
        found[key] = found[key] + sums if key in found else sums
    return found
