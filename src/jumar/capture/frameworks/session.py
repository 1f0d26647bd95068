"""A recording of a program of another framework than PyTorch, from start to end: `FrameworkSession`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import jumar
from jumar.base.host import cores
from jumar.capture.frameworks.notebook import Describer, Notebook, call_rows
from jumar.capture.plans.budget import LEFT_OUT, Budget, Stage
from jumar.capture.plans.plan import RecordPlan
from jumar.capture.plans.selection import Selection
from jumar.capture.session.ending import Status
from jumar.recording import RecordingWriter, RunEnd, RunInfo
from jumar.recording.history.model import NUM_VALUES, HistoryStep, Place
from jumar.recording.history.writer import HistoryWriter
from jumar.recording.schema import STEPS_FOLDER, TENSORS_FOLDER, step_stem


class StopRun(BaseException):
    """Ends a program after the steps that were asked for."""


@dataclass(frozen=True)
class Seen:
    """What watches a program knows of it."""

    is_open: bool
    """Whether something has been computed that no step has yet."""
    has_optimizer: bool
    losses: Sequence[float] = ()
    optimizers: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)
    """Of the step under way, by optimizer: its settings, one item a parameter group."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Of the step under way, by optimizer."""
    run_settings: Mapping[str, Any] = field(default_factory=dict)
    layers: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    device: str = "cpu"


class FrameworkSession(ABC):
    """Observes this process. With `plan=None` it only counts steps.

    A framework's own class says what watches the program, and what is known of it.


    Raises OutputError when the recording's folder cannot be used.
    """

    def __init__(
        self,
        plan: RecordPlan | None,
        describer: Describer,
        *,
        rank: int = 0,
        num_ranks: int = 1,
        stop_after: int | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        self._plan = plan
        self._stop_after, self._on_step = stop_after, on_step
        self._started = time.monotonic()
        self._rank = rank
        self._info = self._run_info(plan, num_ranks) if plan is not None else RunInfo()
        self._writer = RecordingWriter(Path(plan.out), self._info, rank=self._rank, force=plan.force) if plan else None
        self._history: HistoryWriter | None = None
        self._failure = ""
        self._num_written = 0
        self.step = 0
        self.was_stopped = False
        self._selection = Selection(plan.tensors_of, lambda: self.step) if plan and plan.tensors_of else None
        keeps = plan is not None and plan.values == "tensors"
        self.notebook = Notebook(describer, self._selection, keeps_tensors=keeps)
        self._budget = _budget_of(plan) if plan is not None and plan.has_budget else None
        self._mark = (0, 0)

    framework: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]]
    """Packages whose versions a recording names."""

    @abstractmethod
    def _start_watching(self) -> None: ...

    @abstractmethod
    def _stop_watching(self) -> None: ...

    @abstractmethod
    def _forget_step(self) -> None:
        """Begin a step: what watches the program forgets the one before."""

    @abstractmethod
    def _complete_step(self) -> None:
        """Add the rows that are known at the end of a step."""

    @abstractmethod
    def _seen(self) -> Seen:
        """Return what is known of the step under way and of the program so far."""

    @abstractmethod
    def _sentences(self) -> list[str]:
        """Return what is not covered."""

    @abstractmethod
    def _leave_out_operators(self) -> None:
        """Take no more notes of operators: the budget asks for it."""

    def start(self) -> None:
        """Begin to observe."""
        self._start_watching()
        os.register_at_fork(after_in_child=self._leave_child)
        self._begin_step()

    @property
    def _notes_operators(self) -> bool:
        return self._plan is not None and "op" in self._plan.levels

    @property
    def _notes_modules(self) -> bool:
        return self._plan is not None and "module" in self._plan.levels

    def end(self, status: Status, *, exit_code: int = 0, error: str = "") -> RunEnd:
        """Stop observing, and write how the run ended."""
        if status in {"finished", "exited"} and self._seen().is_open and not self._seen().has_optimizer:
            self._hand_over()
        self.notebook.is_open = False
        self._stop_watching()
        end = RunEnd(
            rank=self._rank,
            status=status,
            exit_code=exit_code,
            num_steps=self.step,
            wall_s=time.monotonic() - self._started,
            error=error,
            not_covered=tuple(self._not_covered()),
        )
        with suppress(OSError):  # a full disk: the recording then reads as killed
            if self._history is not None:
                self._history.close()
            if self._writer is not None:
                self._writer.close(end)
        return end

    def _run_info(self, plan: RecordPlan, num_ranks: int) -> RunInfo:
        return RunInfo(
            framework=self.framework,
            jumar_version=jumar.__version__,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=plan.command,
            device="cpu",
            levels=plan.levels,
            values=plan.values,
            steps=plan.steps,
            num_ranks=num_ranks,
            environment={
                "python": platform.python_version(),
                "platform": platform.platform(terse=True),
                "machine": platform.machine(),
                "num_cores": cores().num_cores,
                "libraries": {name: _version(name) for name in self.libraries if _version(name)},
            },
        )

    def _not_covered(self) -> list[str]:
        failed = self.notebook.failure and f"the recording stopped in step {self.step}, because {self.notebook.failure}"
        sentences = [one for one in (self._failure, failed) if one]
        sentences += self._sentences()
        if self._budget is not None:
            sentences += self._budget.sentences()
        if self._selection is not None:
            sentences += [f"no recorded row matches {text!r} of tensors-of" for text in self._selection.unmet()]
        return sentences

    def _begin_step(self) -> None:
        first, end = (self._plan.steps or (0, None)) if self._plan is not None else (0, 0)
        wanted = self._plan is not None and not self._failure and not self.notebook.failure
        wanted = wanted and first <= self.step and (end is None or self.step < end)
        self.notebook.is_open = wanted and (self._budget is None or self._budget.records(self.step))
        self._forget_step()
        self.notebook.begin_step()

    def _restart(self) -> None:
        """Forget the steps so far: calls of a model before there is an optimizer are none."""
        had_steps = bool(self.step)
        self.step = self._num_written = 0
        if had_steps and self._writer is not None:
            with suppress(OSError):
                self._writer.discard_steps()
        if self._history is not None:
            self._history.close()
            self._history = None
        self._begin_step()

    def _end_step(self) -> None:
        self._hand_over()
        if self._stop_after is not None and self.step >= self._stop_after:
            self.was_stopped = True
            raise StopRun

    def _hand_over(self) -> None:
        with self.notebook.own_work():
            was_recorded = self.notebook.is_open
            if was_recorded:
                self._complete_step()
                self._write()
            self._keep_history()
        if self._on_step is not None and (was_recorded or self._plan is None):
            self._on_step(self.step)
        if self._budget is not None:
            self._judge_time(was_recorded=was_recorded)
        self.step += 1
        self._begin_step()

    def _write(self) -> None:
        assert self._writer is not None
        if not self._num_written:
            self._describe()
        left_out = LEFT_OUT.items() if self._budget is not None else ()
        stage = self._budget.stage if self._budget is not None else Stage.NOTHING
        told = [text for of, text in left_out if of <= stage and of in _STAGES]
        try:
            rows = call_rows(self.notebook.rows, self.step, self._rank)
            self._writer.write_step(self.step, rows, self.notebook.arrays or None, self.notebook.step_info(told))
        except OSError as error:
            self._failure = f"steps from {self.step} on are not recorded: {error.strerror}. Free some space."
            return
        self._num_written += 1
        if self._budget is not None:
            self._spend(Path(self._writer.path))

    def _describe(self) -> None:
        """Write how the run is set up, as it is at the end of the first recorded step."""
        assert self._writer is not None
        seen = self._seen()
        settings = dict(seen.run_settings) | {"random_states": _random_states()}
        self._info = replace(self._info, settings=settings, device=seen.device, layers=dict(seen.layers))
        with suppress(OSError):
            self._writer.update_info(self._info)

    def _keep_history(self) -> None:
        if self._writer is None or self._failure:
            return
        seen = self._seen()
        losses = seen.losses
        values = np.zeros((len(losses), NUM_VALUES), np.float32)
        values[:, 0] = np.abs(losses)
        values[:, 1:] = np.array(losses, np.float32).reshape(-1, 1)
        step = HistoryStep(
            step=self.step,
            settings=seen.optimizers,
            calls=seen.calls,
            places=tuple(Place("loss", name=str(number)) for number in range(len(losses))),
            values=values,
        )
        try:
            if self._history is None:
                self._history = HistoryWriter(self._writer.path, self._rank)
            self._history.write(step)
        except OSError as error:
            self._failure = f"steps from {self.step} on are not recorded: {error.strerror}. Free some space."

    def _spend(self, folder: Path) -> None:
        """Account for the files of a step, and leave out what would no longer fit."""
        assert self._budget is not None
        stem = step_stem(self.step, self._rank)
        files = (folder / STEPS_FOLDER / f"{stem}.parquet", folder / TENSORS_FOLDER / f"{stem}.h5")
        size = sum(file.stat().st_size for file in files if file.exists())
        self._budget.spend(size)
        while (room := self._budget.allowance) is not None and size > room and self._budget.stage < Stage.STEPS:
            self._budget.leave_out(self._budget.next_stage(self._budget.stage), self.step + 1)
            size //= 2  # each stage leaves out about half or more; the next step is measured again
        self._apply()

    def _judge_time(self, *, was_recorded: bool) -> None:
        assert self._budget is not None
        clock = self.notebook.clock
        now = (clock.own, clock.now())
        own_s, run_s = ((new - old) / 1e9 for new, old in zip(now, self._mark, strict=True))
        self._mark = now
        self._budget.end_step(self.step, own_s, run_s, was_recorded=was_recorded)
        self._apply()

    def _apply(self) -> None:
        """Take only what the budget still keeps."""
        assert self._budget is not None
        stage = self._budget.stage
        if stage >= Stage.TENSORS:
            self.notebook.keeps_tensors = False
        if stage >= Stage.SKETCHES and self.notebook.describer.values in {"sketch", "hash"}:
            self.notebook.describer.values = "stats" if self.notebook.describer.values == "sketch" else "none"
        if stage >= Stage.OPERATORS:
            self._leave_out_operators()

    def _leave_child(self) -> None:
        """Take no notes in a forked child: a worker of a data set."""
        self.notebook.is_open = False
        self._writer = self._history = None
        self._plan = None


_STAGES = frozenset({Stage.TENSORS, Stage.SKETCHES, Stage.OPERATORS, Stage.STEPS})


def _budget_of(plan: RecordPlan) -> Budget:
    has = {Stage.STEPS}
    has |= {Stage.TENSORS} if plan.values == "tensors" else set()
    has |= {Stage.SKETCHES} if plan.values in {"sketch", "hash"} else set()
    has |= {Stage.OPERATORS} if {"op", "module"} <= set(plan.levels) else set()
    num_steps = plan.steps[1] - plan.steps[0] if plan.steps is not None else None
    return Budget(plan.budget_bytes, plan.budget_slowdown, num_steps=num_steps, has=frozenset(has))


def _random_states() -> dict[str, str]:
    import hashlib
    import random

    states = {"python": repr(random.getstate()), "numpy": repr(np.random.get_state())}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in states.items()}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
