"""The one place where a run is observed: operators, modules, gradients, losses, steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from jumar.capture.fast.watch import FastWatch
from jumar.capture.history.listeners import Listeners
from jumar.capture.history.watch import HistoryWatch, OnHistory
from jumar.capture.notes.attribution import Attribution
from jumar.capture.notes.calls import Call
from jumar.capture.observe.objects import ObjectCollectives
from jumar.capture.probes import Probe
from jumar.capture.watch.gradients import GradientHooks, LossWatch
from jumar.capture.watch.mode import ObserverMode
from jumar.capture.watch.modules import CallWatch
from jumar.capture.watch.naming import ModuleNames
from jumar.capture.watch.notebook import Notebook
from jumar.capture.watch.operators import OperatorWatch
from jumar.capture.watch.optimizers import OptimizerRows
from jumar.capture.watch.stack import ModuleHooks
from jumar.capture.watch.steps import StepWatch
from jumar.recording import Level, StepInfo

OnStep = Callable[[int, Sequence[Call], StepInfo], bool]
"""Takes a finished step, its calls and what is known of it as a whole; returns False when nothing more is wanted."""


class StopRun(SystemExit):
    """Raised in the script when the steps asked for are done; `except Exception` does not swallow it.

    It is a SystemExit with code 0, so that a spawned process it ends counts as well ended.
    """

    def __init__(self) -> None:
        super().__init__(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverOptions:
    """What to observe."""

    levels: tuple[Level, ...] = ("module", "op")
    steps: tuple[int, int] | None = None
    records: Callable[[int], bool] | None = None
    """Asked before each of these steps whether it is recorded; None for all."""
    stop_after: int | None = None
    """Raise `StopRun` in the script after this many completed steps."""
    on_end: Callable[[int], None] | None = None
    """Called with the number of each step that has ended, recorded or not."""
    on_history: OnHistory | None = None
    """Is given a few numbers of each step that has ended, recorded or not."""
    on_restart: Callable[[], None] | None = None
    """Called when the steps so far turn out to be none: they are counted from 0 again."""
    may_train: Callable[[], bool] = lambda: False
    """Asked when a program without an optimizer has completed the steps asked for: whether it may make one yet."""


class Observer:
    """Observes this process from `start` to `stop` and hands each recorded step to `on_step`.

    With `on_step=None` it only counts steps. One observer at a time may be started in a process.
    """

    def __init__(
        self,
        options: ObserverOptions,
        probes: Sequence[Probe],
        on_step: OnStep | None,
        model: nn.Module | None = None,
    ) -> None:
        self._options = options
        self._on_step = on_step
        self._wanted = on_step is not None
        self._observes_operators = "op" in options.levels
        names, self._attribution = ModuleNames(model), Attribution()
        self._notebook = Notebook(probes, sees_writes=self._observes_operators, on_failure=self._fail)
        self._optimizers = OptimizerRows(self._notebook, names, self._pause_operators, self._resume_operators)
        self.history = HistoryWatch(self._notebook, names, options.on_history) if options.on_history else None
        """Takes the numbers of every step; None where nobody wants them."""
        self._steps = StepWatch(self._end_step, Listeners(self.history, self._optimizers), self._restart)
        self.names = names
        """Paths of the run's modules."""
        self.operators = OperatorWatch(
            self._notebook,
            self._attribution,
            names,
            lambda: self._steps.depth > 0,
            self._optimizers,
            notes_optimizer_values="optimizer" in options.levels,
        )
        """Runs and notes one operator."""
        self._mode = ObserverMode(self.operators.run)
        self._calls = CallWatch(
            self._notebook, self._attribution, self._on_root, notes_modules="module" in options.levels
        )
        self._fast = FastWatch(self._notebook, self.operators, self._calls, self._attribution)
        self._modules = ModuleHooks(names, self._calls, self._notebook.watch)
        if self.history is not None:
            self._modules.after_root = self.history.after_root
        self._losses = LossWatch(self._on_loss, self._attribution.enter_backward, self._attribution.leave_backward)
        self._objects = ObjectCollectives(self._notebook.watch)
        self._num_recorded = 0
        self.was_stopped = False
        """Whether `StopRun` was raised."""
        self.step = 0
        """Number of completed steps, which is the number of the step under way."""
        self.not_covered: dict[str, None] = {}
        """Sentences on what could not be observed, in the order in which that was noticed."""

    @property
    def notebook(self) -> Notebook:
        """What is noted of the step under way: its probes, selection and clock may be changed between steps."""
        return self._notebook

    @property
    def gradients(self) -> GradientHooks:
        """Notes the gradients of a call's tensors."""
        return self._calls.gradients

    def leave_out_operators(self) -> None:
        """Record no operators from the next step on; what the budget asks for."""
        self._observes_operators = self._notebook.sees_writes = False

    def start(self) -> None:
        """Begin to observe."""
        self._steps.start()
        self._modules.start()
        if self._wanted:
            self._losses.start()
            self._notebook.autocast.start()
            self._objects.start()
        if self.history is not None:
            self.history.start()
        self._update_recording()
        self._begin_step()  # the generators are as the first step finds them

    def stop(self) -> None:
        """End observing; what was not a complete step is dropped."""
        self._wanted = False
        self._update_recording()
        self._steps.stop()
        self._modules.stop()
        self._losses.stop()
        if self.history is not None:
            self.history.stop()
        self._notebook.autocast.stop()
        self._objects.stop()
        self._calls.gradients.end_step()
        self._fast.stop()
        self._notebook.begin_step()

    def finish(self, *, complete: bool) -> None:
        """Stop at the end of the program; when it is `complete`, a last step that nothing else ends is ended."""
        if complete and self._notebook.calls and (self._steps.last_step_is_open or not self.step):
            self._hand_over()
        self.stop()

    def expect_optimizer(self) -> None:
        """Tell that an optimizer is being made just now."""
        self._steps.expect_optimizer()

    def catch_up(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Tell that `start` was called on the way into this outermost module call."""
        self._modules.before(module, args)

    def drop_after_fork(self) -> None:
        """Stop in a forked child without touching what the parent writes."""
        self._on_step = None
        if self.history is not None:
            self.history.stop()
        self._notebook.is_open = self._wanted = False
        self._mode.leave_if_on_top()

    def _end_step(self) -> None:
        self._hand_over()
        options = self._options
        if options.stop_after is None or self.step < options.stop_after:
            return
        if self._steps.has_optimizer or not options.may_train():
            self.was_stopped = True
            raise StopRun

    def _on_loss(self, loss: torch.Tensor) -> None:
        if torch._C._current_graph_task_id() >= 0:
            return  # a backward inside a backward goes on with the gradient of a part of the model (a checkpoint)
        if self.history is not None:
            self.history.on_loss(loss)
        self._calls.on_loss(loss)

    def _restart(self) -> None:
        """Forget the steps so far: a program's calls of a model before it has an optimizer are no steps.

        A single such call may be the forward pass of the first step. It stays.
        """
        if not self.step:
            return
        if self.history is not None:
            self.history.end_step(self.step)  # what it has noted of the call before is discarded with the others
        if self._options.on_restart is not None:
            self._options.on_restart()
        with self._notebook.own_work():
            if self._notebook.is_open:
                self._optimizers.end_step()
                self._notebook.end_step()  # probes must not take a tensor of the next step for one of this one
        self.step = self._num_recorded = 0
        self._begin_next()

    def _hand_over(self) -> None:
        notebook = self._notebook
        if self.history is not None:
            self.history.end_step(self.step)
        with notebook.own_work():
            if notebook.is_open:
                self._optimizers.end_step()
                calls = notebook.end_step()
                self._num_recorded += 1
                if self._on_step is None or not self._on_step(self.step, calls, notebook.info):
                    self._wanted = False
        if self._options.on_end is not None:
            self._options.on_end(self.step)
        self.step += 1
        self._begin_next()

    def _begin_next(self) -> None:
        """Forget what was noted of the step before, and begin to note the one under way."""
        self._calls.gradients.end_step()
        self._attribution.end_step()
        self._optimizers.begin_step()
        self._update_recording()
        self._begin_step()

    def _begin_step(self) -> None:
        """Begin the notes of a step, and let C++ take them where it can."""
        notebook = self._notebook
        if notebook.is_open:
            with notebook.own_work():
                self._fast.begin_step(self._mode if self._observes_operators else None)
        else:
            self._fast.pause()
        notebook.begin_step()
        self._fast.began()

    def _update_recording(self) -> None:
        first, end = self._options.steps or (0, sys.maxsize)
        records = self._options.records
        is_wanted = self._wanted and first <= self.step < end and (records is None or records(self.step))
        self._notebook.is_open = is_wanted
        if self._notebook.is_open and self._observes_operators:
            self._mode.enter()
        else:
            self._mode.leave_if_on_top()

    def _pause_operators(self) -> None:
        """Leave the operators of an optimizer out, unless they were asked for.

        Parameter rows say what an optimizer did. Its operators are half of a step's, and noting most of them takes
        longer than running them. The first recorded step lists them without values. A recording without any values is
        made for its operators, and holds them in every step.
        """
        is_wanted = "optimizer" in self._options.levels or not self._notebook.tensor_probes or not self._num_recorded
        if not is_wanted:
            self._mode.leave_if_on_top()

    def _resume_operators(self) -> None:
        if self._notebook.is_open and self._observes_operators:
            self._mode.enter()

    def _on_root(self, module: nn.Module) -> None:
        """Note that an outermost module is about to be called."""
        if next(module.parameters(), None) is not None:
            self._steps.on_root_call()
        if self._notebook.is_open and self._observes_operators and not self._mode.is_on_stack():
            self.not_covered[
                f"operators that run on the thread {threading.current_thread().name} "
                f"({type(module).__name__} is called there)"
            ] = None

    def _fail(self, error: Exception) -> None:
        self.not_covered[
            f"the recording stopped in step {self.step}, because the observer failed: {type(error).__name__}: {error}"
        ] = None
        self._wanted = False
        self._update_recording()
        self._fast.pause()
        self._notebook.begin_step()
