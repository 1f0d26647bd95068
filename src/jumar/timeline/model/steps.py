"""The steps of a run: from the profiler's marks, else from the optimizer's calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from jumar.timeline.model.events import Events, Integers, Kind, StepOrigin, StepWindow

MARK = re.compile(r"ProfilerStep#(\d+)$")
OPTIMIZER = "Optimizer.step#"


def find_steps(events: Events, names: Sequence[str]) -> tuple[tuple[StepWindow, ...], StepOrigin]:
    """Return the steps and where they come from.

    A mark's step is its own length. Without marks a step reaches from the end of an optimizer's call to the end of
    the next. A program with several optimizers steps as often as the one that it calls least.
    """
    marks = np.flatnonzero(events.kind == Kind.STEP)
    found = [(MARK.search(names[events.name[row]]), int(row)) for row in marks]
    windows = [
        StepWindow(int(match[1]), int(events.start_ns[row]), int(events.end_ns[row])) for match, row in found if match
    ]
    if windows:
        return tuple(sorted(windows, key=lambda step: step.start_ns)), "marks"
    ends = _optimizer_ends(events, names)
    if not len(ends):
        return (), "none"
    borders = [int(events.start_ns.min()), *map(int, ends)]
    return tuple(StepWindow(number, *borders[number : number + 2]) for number in range(len(ends))), "optimizer"


def _optimizer_ends(events: Events, names: Sequence[str]) -> Integers:
    """Return the ends of the calls of the optimizer that is called least."""
    ends = [
        np.sort(events.end_ns[(events.name == index) & (events.kind == Kind.RANGE)])
        for index, name in enumerate(names)
        if name.startswith(OPTIMIZER)
    ]
    return min((one for one in ends if len(one)), key=len, default=np.empty(0, np.int64))
