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
from dataclasses import replace
from types import TracebackType

from jumar.tune.measuring import Runner
from jumar.tune.worker import Limits, Outcome, Trial

JUDGED_BY_BUILDING = frozenset({"failed", "timeout"})


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

    def prepare(self, trials: Sequence[Trial], limits: Limits) -> list[tuple[Trial, Outcome]]:
        """Build the candidates; returns those that are judged by it, with their outcomes.

        Raises what a lane raised, once all have ended.
        """
        if self.num_lanes < 2 or len(trials) < 2:
            return []
        waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
        for trial in trials:
            waiting.put(trial)
        judged: list[tuple[Trial, Outcome]] = []
        errors: list[Exception] = []
        lanes = [
            threading.Thread(target=_work, args=(runner, waiting, limits, judged, errors), daemon=True)
            for runner in self._runners[: len(trials)]
        ]
        for lane in lanes:
            lane.start()
        try:
            for lane in lanes:
                lane.join()
        except KeyboardInterrupt:
            _drain(waiting)
            raise
        if errors:
            raise errors[0]
        return judged

    def __enter__(self) -> ParallelBuilders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for runner in self._runners:
            runner.__exit__(kind, error, traceback)


def _work(
    runner: Runner,
    waiting: queue.SimpleQueue[Trial],
    limits: Limits,
    judged: list[tuple[Trial, Outcome]],
    errors: list[Exception],
) -> None:
    """Build candidate after candidate, until there is none left or a lane could not go on."""
    while not errors:
        try:
            trial = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            outcome = runner.run(replace(trial, build_only=True), limits)
        except Exception as error:  # noqa: BLE001 - it is raised again in the thread that waits for the lanes
            errors.append(error)
            return
        if outcome.status in JUDGED_BY_BUILDING and outcome.phase == "candidate":
            judged.append((trial, outcome))


def _drain(waiting: queue.SimpleQueue[Trial]) -> None:
    while True:
        try:
            waiting.get_nowait()
        except queue.Empty:
            return
