"""A recording of a MindSpore program from start to end: `MindSporeSession`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.capture.frameworks.mindspore.cells import CellWatch
from jumar.capture.frameworks.mindspore.context import Contexts
from jumar.capture.frameworks.mindspore.names import CellNames
from jumar.capture.frameworks.mindspore.operators import NOT_SEEN, UNAVAILABLE, operator_watch
from jumar.capture.frameworks.mindspore.optimizers import OptimizerRows
from jumar.capture.frameworks.mindspore.rounding import Rounding
from jumar.capture.frameworks.mindspore.tensors import Describer
from jumar.capture.frameworks.mindspore.training import TrainingWatch
from jumar.capture.frameworks.session import FrameworkSession, Seen
from jumar.capture.notes.lines import UserLines
from jumar.capture.plans.plan import RecordPlan


class MindSporeSession(FrameworkSession):
    """Observes this process. With `plan=None` it only counts steps.

    Raises OutputError when the recording's folder cannot be used.
    """

    framework = "mindspore"
    libraries = ("mindspore", "numpy")

    def __init__(
        self,
        plan: RecordPlan | None,
        *,
        contexts: Contexts,
        stop_after: int | None = None,
        folder: Path | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(
            plan,
            Describer(plan.values if plan else "none"),
            rank=_number_of("RANK_ID", 0),
            num_ranks=_number_of("RANK_SIZE", 1),
            stop_after=stop_after,
            on_step=on_step,
        )
        self._contexts = contexts
        self.names = CellNames()
        self._lines = UserLines(folder)
        self._cells = CellWatch(self.notebook, self.names, self._lines, notes_modules=self._notes_modules)
        self._optimizers = OptimizerRows(self.notebook, self.names)
        self._training = TrainingWatch(
            self.notebook, self._cells, self._optimizers, self._end_step, self._restart, contexts.count_parameters
        )
        self._operators: Any = None

    def _start_watching(self) -> None:
        self._training.start()
        if self._notes_operators or self._contexts.emulates:
            self._rounding = Rounding()
            self._operators = operator_watch(
                self.notebook, self._cells, self._lines, self._run, notes=self._notes_operators
            )
            if self._operators is not None:
                self._operators.__enter__()

    def _run(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call an operator, as a chip does where the program asked for one."""
        return self._rounding.call(function, args) if self._contexts.is_ascend else function(*args)

    def _stop_watching(self) -> None:
        if self._operators is not None:
            self._operators.__exit__(None, None, None)
        self._training.stop()

    def _forget_step(self) -> None:
        self._optimizers.begin_step()
        self._training.begin_step()

    def _complete_step(self) -> None:
        self._optimizers.end_step()

    def _seen(self) -> Seen:
        training = self._training
        settings = _settings() | self._contexts.settings()
        if training.sinks is not None:
            settings["dataset_sink_mode"] = training.sinks
        return Seen(
            is_open=training.is_open,
            has_optimizer=training.has_optimizer,
            losses=training.losses,
            optimizers=self._optimizers.settings,
            calls=self._optimizers.calls,
            run_settings=settings,
            layers=self.names.layers,
            device=self._contexts.device,
        )

    def _sentences(self) -> list[str]:
        found = list(self._contexts.sentences())
        if self._notes_operators:
            found.append(UNAVAILABLE if self._operators is None else NOT_SEEN)
        return found

    def _leave_out_operators(self) -> None:
        if self._operators is not None:
            self._operators.is_on = False


def _number_of(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else default


def _settings() -> dict[str, Any]:
    import mindspore as ms

    return {
        "mode": "PyNative",
        "deterministic_algorithms": ms.get_context("deterministic") == "ON",
        "seed": ms.get_seed(),
        "default_dtype": "float32",
    }
