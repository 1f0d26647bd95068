"""`Profile`: a timeline as every rule about it sees it: the steps that are judged, and spans within them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jumar.advise.bottlenecks.run import PRICE
from jumar.advise.timing.thresholds import Thresholds
from jumar.base.findings import Finding
from jumar.timeline.model import nesting
from jumar.timeline.model.events import Events, Integers, Kind, StepWindow, Timeline
from jumar.timeline.spans import Spans

Mask = npt.NDArray[np.bool_]
WORK = (Kind.OPERATOR, Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE)
"""What a program calculates, moves and sends."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One rank's timeline, the subject of every rule of this room."""

    timeline: Timeline
    thresholds: Thresholds
    saved: list[Spans] = field(default_factory=list)
    """The time that each finding could save at most, for their union."""

    @cached_property
    def windows(self) -> Sequence[StepWindow]:
        """All steps; the whole timeline as one where its steps are not known."""
        timeline = self.timeline
        if timeline.steps:
            return timeline.steps
        events = timeline.events
        return [StepWindow(0, int(events.start_ns.min()), int(events.end_ns.max()))] if len(events) else []

    @cached_property
    def judged(self) -> Sequence[StepWindow]:
        """The steps after the first, which compiles and warms up; the first where there is no other."""
        return self.windows[1:] or self.windows

    @cached_property
    def time(self) -> Spans:
        """The time of the judged steps."""
        starts = np.array([step.start_ns for step in self.judged], np.int64)
        return Spans.of(starts, np.array([step.end_ns for step in self.judged], np.int64))

    @cached_property
    def median_ns(self) -> float:
        """The median length of a judged step."""
        return statistics.median(step.duration_ns for step in self.judged) if self.judged else 0.0

    def of_events(self, chosen: Mask | Integers) -> Spans:
        """Return the time, in any step, in which any of these events ran."""
        return Spans.of_events(self.timeline.events, chosen)

    def spans(self, chosen: Mask | Integers) -> Spans:
        """Return the time of the judged steps in which any of these events ran."""
        return self.of_events(chosen) & self.time

    def inside(self, mask: Mask) -> npt.NDArray[np.int64]:
        """Return the positions of these events that begin in a judged step."""
        found = np.flatnonzero(mask)
        begins = self.timeline.events.start_ns[found]
        return found[self.time.hold(begins)]

    def named(self, *words: str, kinds: Sequence[Kind] = ()) -> Mask:
        """Return the mask of events whose names contain one of these words, in any case, and are of these kinds."""
        mask = self.timeline.named(lambda name: any(word in name.lower() for word in words))
        return mask & self.timeline.of(*kinds) if kinds else mask

    @cached_property
    def kernel_types(self) -> list[str]:
        """For each name of the timeline the vendor's type of the kernel (`Conv2D` for `Conv2D2245`), or the name."""
        timeline, events = self.timeline, self.timeline.events
        types = [dict(detail.more).get("Op Type", "") for detail in timeline.details]
        found = list(timeline.names)
        rows = np.flatnonzero(timeline.of(Kind.KERNEL, Kind.COPY) & timeline.on("device") & (events.detail >= 0))
        names, first = np.unique(events.name[rows], return_index=True)
        for name, row in zip(names.tolist(), rows[first].tolist(), strict=True):
            found[name] = types[events.detail[row]] or found[name]
        return found

    def by_name(self, positions: npt.NDArray[np.int64]) -> list[tuple[str, int, int]]:
        """Return name or type, number of events and summed nanoseconds, the greatest sum first."""
        events, sums = self.timeline.events, dict[str, list[int]]()
        size = len(self.timeline.names)
        counts = np.bincount(events.name[positions], minlength=size)
        lengths = np.bincount(events.name[positions], events.duration_ns[positions], size)
        for index in np.flatnonzero(counts).tolist():
            group = sums.setdefault(self.kernel_types[index], [0, 0])
            group[0] += int(counts[index])
            group[1] += int(lengths[index])
        ranked = sorted(sums.items(), key=lambda item: -item[1][1])
        return [(name, count, length) for name, (count, length) in ranked]

    def share(self, spans: Spans) -> float:
        """Return the part of the judged steps that these spans fill, 0 to 1."""
        return spans.total_ns / self.time.total_ns if self.time.total_ns else 0.0

    def per_step_ms(self, nanoseconds: float) -> float:
        """Return milliseconds a judged step."""
        return nanoseconds / 1e6 / max(len(self.judged), 1)

    def rate(self, count: int) -> float:
        """Return how many a judged step."""
        return count / max(len(self.judged), 1)

    def has(self, *kinds: Kind) -> bool:
        """Return whether the timeline holds an event of these kinds."""
        return bool(self.timeline.of(*kinds).any())

    def line_of(self, positions: npt.NDArray[np.int64]) -> str:
        """Return the source line that most of these events have, `train.py:41`; empty when none has one."""
        details = (self.timeline.detail_of(int(position)) for position in positions[:2000])
        lines = [detail.stack for detail in details if detail is not None and detail.stack]
        return statistics.mode(lines) if lines else ""

    def priced(self, finding: Finding, saves: Spans) -> Finding:
        """Return the finding with what it could save at most.

        Without these events a step gets shorter by no more than the time in which one of them ran: while none of
        them runs, the step advances as before. So the bound is the length of their union, in the judged steps.
        """
        spans = saves & self.time
        self.saved.append(spans)
        most = self.per_step_ms(spans.total_ns)
        evidence = {**finding.evidence, "saves_at_most_ms_per_step": round(most, 3), PRICE: round(1000 * most, 1)}
        return replace(finding, evidence=evidence)

    def saved_together_ms(self) -> float:
        """Return what all findings could save together at most, in milliseconds a step: never more than the step."""
        union = Spans.none()
        for spans in self.saved:
            union = union | spans
        return self.per_step_ms(union.total_ns)


def outermost(events: Events, positions: Integers) -> Integers:
    """Return those of these events that lie in no other of them on their lane, in the order of their begin."""
    lanes, starts = events.lane[positions].astype(np.int64), events.start_ns[positions]
    lengths = events.duration_ns[positions]
    order = nesting.in_order(lanes, starts, lengths)
    holders = nesting.parents(lanes[order], starts[order], lengths[order])
    return np.sort(positions[order][holders == nesting.NO_PARENT])
