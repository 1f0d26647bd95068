"""Candidates compiled at once, measured one at a time: what TE_PARALLEL_COMPILER and TUNING_PARALLEL_NUM do.

Before the candidates of a slot are screened, each is built and called once in a lane of its own. What they compile
stays in the compilers' own caches on the disk (TorchInductor keeps its kernels by their content), so that the
measurement that follows, alone on the machine, compiles nothing. A candidate that already fails or hangs while it
is built is judged by that; one that runs out of memory or crashes is tried once more, alone.

A lane is a worker process of its own. With one lane nothing is done beforehand: it would only take longer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType

from jumar.tune.measure.measuring import Runner, SecondsLeft, unless_cut_short, within
from jumar.tune.measure.worker.messages import Limits, Outcome, Trial

JUDGED_BY_BUILDING = frozenset({"failed", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Candidates that are built together, and what came of them so far."""

    limits: Limits
    left_s: SecondsLeft
    waiting: queue.SimpleQueue[Trial] = field(default_factory=queue.SimpleQueue)
    judged: list[tuple[Trial, Outcome]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)


class ParallelBuilders:
    """A runner with lanes: `run` measures in the first one, `prepare` builds in all of them."""

    def __init__(self, make_runner: Callable[[], Runner], num_lanes: int) -> None:
        """Take `num_lanes` (at least 1) runners; they start when they are first used."""
        self.notes: list[str] = []
        self._runners = [make_runner() for _ in range(max(1, num_lanes))]

    @property
    def num_lanes(self) -> int:
        """Candidates that are built at once."""
        return len(self._runners)

    def run(self, trial: Trial, limits: Limits) -> Outcome:
        """Measure a trial while no lane builds."""
        return self._runners[0].run(trial, limits)

    def prepare(self, trials: Sequence[Trial], limits: Limits, left_s: SecondsLeft) -> list[tuple[Trial, Outcome]]:
        """Build the candidates, as long as there is time; returns those that are judged by it, with their outcomes.

        Raises what a lane raised, once all have ended.
        """
        if self.num_lanes < 2 or len(trials) < 2:
            return []
        batch = _Batch(limits=limits, left_s=left_s)
        for trial in trials:
            batch.waiting.put(trial)
        lanes = [
            threading.Thread(target=_work, args=(runner, batch), daemon=True) for runner in self._runners[: len(trials)]
        ]
        for lane in lanes:
            lane.start()
        try:
            for lane in lanes:
                lane.join()
        except KeyboardInterrupt:
            _drain(batch.waiting)
            raise
        if batch.errors:
            raise batch.errors[0]
        return batch.judged

    def __enter__(self) -> ParallelBuilders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for runner in self._runners:
            runner.__exit__(kind, error, traceback)


def _work(runner: Runner, batch: _Batch) -> None:
    """Build candidate after candidate, until there is none or no time left or a lane could not go on."""
    while not batch.errors and (left_s := batch.left_s()) > 0:
        try:
            trial = batch.waiting.get_nowait()
        except queue.Empty:
            return
        limits = within(batch.limits, left_s)
        try:
            found = runner.run(replace(trial, build_only=True), limits)
        except Exception as error:  # noqa: BLE001 - it is raised again in the thread that waits for the lanes
            batch.errors.append(error)
            return
        outcome = unless_cut_short(found, limits.time_s, batch.limits.time_s)
        if outcome.status in JUDGED_BY_BUILDING and outcome.phase == "candidate":
            batch.judged.append((trial, outcome))


def _drain(waiting: queue.SimpleQueue[Trial]) -> None:
    while True:
        try:
            waiting.get_nowait()
        except queue.Empty:
            return
