"""A recording of a TensorFlow program from start to end: `TensorFlowSession`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.capture.frameworks.session import FrameworkSession, Seen
from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.capture.frameworks.tensorflow.observe.observer import Observer
from jumar.capture.frameworks.tensorflow.tensors import TensorFlowDescriber
from jumar.capture.notes.lines import UserLines
from jumar.capture.plans.plan import RecordPlan


class TensorFlowSession(FrameworkSession):
    """Observes this process. Raises OutputError when the recording's folder cannot be used."""

    framework = "tensorflow"
    libraries = ("tensorflow", "keras", "tensorflow-estimator", "numpy")

    def __init__(
        self,
        plan: RecordPlan,
        *,
        stop_after: int | None = None,
        folder: Path | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        layouts = Layouts()
        super().__init__(plan, TensorFlowDescriber(plan.values, layouts), stop_after=stop_after, on_step=on_step)
        lines = UserLines(folder)
        self._observer = Observer(
            self.notebook, folder, self._end_step, plan.levels, self._restart, lines.find, layouts, lines.show
        )

    def _start_watching(self) -> None:
        self._observer.start()

    def _stop_watching(self) -> None:
        self._observer.stop()

    def _forget_step(self) -> None:
        self._observer.begin_step()

    def _complete_step(self) -> None:
        self._observer.end_step()

    def _seen(self) -> Seen:
        observer = self._observer
        return Seen(
            is_open=observer.is_open,
            has_optimizer=observer.has_optimizer,
            losses=observer.losses,
            optimizers=observer.settings,
            calls=observer.calls,
            run_settings=_settings(),
            layers=observer.layers,
        )

    def _sentences(self) -> list[str]:
        return self._observer.sentences()

    def _leave_out_operators(self) -> None:
        self._observer.leave_out_operators()


def _settings() -> dict[str, Any]:
    import tensorflow as tf

    return {"mode": "eager", "default_dtype": tf.keras.backend.floatx(), "precision_policy": _policy(tf)}


def _policy(tf: Any) -> str:
    return str(tf.keras.mixed_precision.global_policy().name)
