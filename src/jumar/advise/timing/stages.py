"""Which operator of MindSpore's data pipeline is slow: the one with an empty queue behind it and work before it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from jumar.advise.bottlenecks.tally import percent_text
from jumar.timeline.model.events import Timeline

_NAME = re.compile(r"queue behind (\S*) (\d+)")
MIN_SAMPLES = 3
"""Fewer depths of a queue say nothing. The first one is left out: at the begin every queue is empty."""
_EMPTY = 0.5
"""A queue is empty that was found empty so often."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What was sampled behind one operator."""

    operator: str
    """`MapOp 2`: its kind and number; numbers grow from the model to the source."""
    depth: float
    """Mean number of rows."""
    empty_share: float
    workers: int | None
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlowStage:
    """The operator that keeps the model waiting."""

    queue: Queue
    before: Queue | None
    """The fullest queue that it reads from; None of a source."""

    def __str__(self) -> str:
        empty = (
            f"The queue behind {self.queue.operator} is empty in {percent_text(self.queue.empty_share)} of its samples"
        )
        if self.before is None:
            return f"{empty}, and it is the source."
        return f"{empty}, and {self.before.depth:,.1f} rows wait for it behind {self.before.operator}."

    @property
    def action(self) -> str:
        """What to set, in MindSpore's words."""
        workers = self.queue.workers
        now = f" ({workers} now)" if workers is not None else ""
        return (
            f"Give {self.queue.operator} more num_parallel_workers{now}, or cheaper operations; "
            "ds.config.set_prefetch_size helps against jitter only."
        )


def slow_stage(timeline: Timeline) -> SlowStage | None:
    """Return the slow operator; None where queues were not sampled, or the last one is not empty.

    From the model on, each operator whose queue is empty waits for the one before it, up to the one whose own input is
    there.
    """
    queues = _queues(timeline)
    if not queues:
        return None
    number = min(queues)
    if queues[number].empty_share < _EMPTY:
        return None
    while True:
        before = [place for place in queues[number].inputs if place in queues and place > number]
        starved = [place for place in before if queues[place].empty_share >= _EMPTY]
        if len(before) != len(queues[number].inputs):
            return None  # a queue before it was not sampled: which of the two is slow cannot be told
        if not starved:
            fullest = max((queues[place] for place in before), key=lambda one: one.depth, default=None)
            return SlowStage(queues[number], fullest)
        number = max(starved, key=lambda place: queues[place].empty_share)


def _queues(timeline: Timeline) -> dict[int, Queue]:
    found = {}
    for counter in timeline.counters:
        match = _NAME.fullmatch(counter.name)
        values = np.asarray(counter.values)[1:]
        if match and len(values) >= MIN_SAMPLES:
            operator = f"{match[1]} {match[2]}"
            found[int(match[2])] = Queue(
                operator=operator,
                depth=float(values.mean()),
                empty_share=float((values < 1).mean()),
                workers=_number(timeline.facts.get(f"workers of {operator}", "")),
                inputs=tuple(int(one) for one in re.findall(r"\d+", timeline.facts.get(f"inputs of {operator}", ""))),
            )
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
