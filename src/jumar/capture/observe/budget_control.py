"""A budget at work on the observer of a run: what each step may keep, and what the next one leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jumar.base.text import counted
from jumar.capture.notes.calls import Call
from jumar.capture.observe.budget_notes import CappedTensors, Fitting
from jumar.capture.observe.observer import Observer
from jumar.capture.plans.budget import Budget, Stage
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.probes import Probe, TensorsProbe
from jumar.recording.history.model import HistoryStep
from jumar.recording.schema import STEPS_FOLDER, TENSORS_FOLDER, step_stem

_SKETCHING = ("SketchProbe", "SketchesProbe", "HashProbe", "HashesProbe")


@dataclass(slots=True)
class _Mark:
    """The observer's clock when a step began, in nanoseconds."""

    own: int
    run: int


class BudgetControl:
    """Holds the budget of one rank of a recording."""

    def __init__(self, plan: RecordPlan) -> None:
        num_steps = plan.steps[1] - plan.steps[0] if plan.steps is not None else None
        self.budget = Budget(plan.budget_bytes, plan.budget_slowdown, num_steps=num_steps, has=_stages_of(plan))
        self._fitting = Fitting(self.budget)
        self._folder = Path(plan.out)
        self._capped: CappedTensors | None = None
        self._first = plan.steps[0] if plan.steps is not None else 0
        self._written: int | None = None
        self._mark: _Mark | None = None
        self._was_recorded = False
        self._num_skipped = 0
        self._history_bytes = 0
        self._brief_since: int | None = None

    def share_between(self, num_ranks: int) -> None:
        """Say how many ranks share the size evenly, once that is known."""
        if num_ranks > 1:
            self.budget.share(num_ranks)

    def wrap(self, probes: Sequence[Probe]) -> list[Probe]:
        """Return the probes, the one that copies whole tensors with a limit."""
        wrapped: list[Probe] = []
        for probe in probes:
            if isinstance(probe, TensorsProbe):
                probe = self._capped = CappedTensors(probe, self.budget)  # noqa: PLW2901 - takes its place in the list
            wrapped.append(probe)
        return wrapped

    def fit(self, step: int, calls: Sequence[Call]) -> tuple[Sequence[Call], list[str]]:
        """Return the calls of a finished step that are kept, and what was left out of it."""
        calls, told = self._fitting.fit(step, calls)
        if self._capped is not None and self._capped.num_skipped:
            self._num_skipped += 1
            told.append(f"{self._capped.num_skipped} more whole tensors, for which there was no room or time")
        return calls, told

    def sentences(self) -> list[str]:
        """Return what the budget left out of the run, for its end."""
        told = self.budget.sentences()
        if self._brief_since is not None:
            told.append(
                f"the budget left out the numbers of single parameters from step {self._brief_since} on, in steps "
                "that are not recorded in detail"
            )
        lacking = max(self._num_skipped, self._fitting.num_dropped)
        if lacking:
            told.append(f"the budget left out some of the whole tensors of {counted(lacking, 'step')}")
        return told

    def count_files(self, rank: int) -> None:
        """Account for the files of the step written last, which is on the disk by now."""
        if self._written is None:
            return
        stem = step_stem(self._written, rank)
        self._written = None
        rows = _size(self._folder / STEPS_FOLDER / f"{stem}.parquet")
        self._fitting.learn(rows)
        self.budget.spend(rows + _size(self._folder / TENSORS_FOLDER / f"{stem}.h5"))

    def fit_history(self, step: HistoryStep) -> HistoryStep:
        """Return what is kept of the numbers of a step: all, until they have used up their part of the size."""
        allowed = self.budget.history_bytes
        if allowed is None or self._history_bytes <= allowed:
            return step
        if self._brief_since is None:
            self._brief_since = step.step
        return step.brief()

    def count_history(self, num_bytes: int) -> None:
        """Account for the numbers of every step, which have taken `num_bytes` so far."""
        self.budget.spend(num_bytes - self._history_bytes)
        self._history_bytes = num_bytes

    def was_handed_over(self, step: int) -> None:
        """Say that a step is on its way to the disk."""
        self._written = step
        self._was_recorded = True

    def end_step(self, step: int, observer: Observer) -> None:
        """Account for the time of a step, recorded or not, and set the observer up for the next one."""
        clock = observer.notebook.clock
        now = _Mark(clock.own, clock.now())
        began, self._mark = self._mark, now
        run_s = (now.run - began.run) / 1e9 if began is not None else 0.0
        if began is not None and step >= self._first:
            own_s = (now.own - began.own) / 1e9
            self.budget.end_step(step, own_s, run_s, was_recorded=self._was_recorded)
        self._was_recorded = False
        self.apply(observer)
        if self._capped is not None:
            self._capped.begin_step(clock, run_s)

    def start(self, observer: Observer) -> None:
        """Note the time at which the first step begins."""
        clock = observer.notebook.clock
        self._mark = _Mark(clock.own, clock.now())

    def apply(self, observer: Observer) -> None:
        """Let the observer take only what is still kept."""
        stage, notebook = self.budget.stage, observer.notebook
        if stage >= Stage.TENSORS and self._capped is not None:
            notebook.probes = [probe for probe in notebook.probes if probe is not self._capped]
            self._capped = None
        if stage >= Stage.SKETCHES:
            notebook.probes = [probe for probe in notebook.probes if type(probe).__name__ not in _SKETCHING]
        if stage >= Stage.VIEWS:
            notebook.skips_views = True
        if stage >= Stage.OPERATORS:
            observer.leave_out_operators()


def _stages_of(plan: RecordPlan) -> frozenset[Stage]:
    """Return the stages that leave out something this plan asks for."""
    stages = {Stage.STEPS}
    if plan.values == "tensors":
        stages.add(Stage.TENSORS)
    if plan.values in {"sketch", "hash"}:
        stages.add(Stage.SKETCHES)
    if "op" in plan.levels:
        stages.add(Stage.VIEWS)
        if plan.values not in {"none", "hash"}:
            stages.add(Stage.REPEATS)
        if "module" in plan.levels:
            stages.add(Stage.OPERATORS)
    return frozenset(stages)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # a step without tensors, or one that could not be written
        return 0
