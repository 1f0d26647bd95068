"""`Observer`: watches this process and gives what it sees to a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from jumar.capture.frameworks.tensorflow.observe.layers import LayerWatch
from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.capture.frameworks.tensorflow.observe.names import LayerNames
from jumar.capture.frameworks.tensorflow.observe.operators import OperatorWatch
from jumar.capture.frameworks.tensorflow.observe.optimizers import OptimizerRows
from jumar.capture.frameworks.tensorflow.observe.sessions import SessionWatch, plain_file
from jumar.capture.frameworks.tensorflow.observe.training import TrainingWatch

AS_EAGER = "tf.function and Keras' compiled functions ran eagerly: nothing is seen of fusion and graph rewriting"
OUTSIDE = "calls of a model outside a GradientTape (evaluation, prediction) are not recorded"


class Observer:
    """Takes notes into `notebook` (see `jumar.capture.frameworks.notebook`); its `layouts` are to be those given here.

    `on_step_end` is called when a step is complete, `on_restart` when the steps so far turn out to be none.
    `find_line` returns `file:line` of the user's frame at or outside of a frame. `folder` is the script's.
    """

    def __init__(
        self,
        notebook: Any,
        folder: Any = None,
        on_step_end: Callable[[], None] = lambda: None,
        levels: Sequence[str] = ("module", "op"),
        on_restart: Callable[[], None] = lambda: None,
        find_line: Callable[[Any], str] = lambda _: "",
        layouts: Any = None,
        show_file: Callable[[str], str] = plain_file,
    ) -> None:
        import tensorflow as tf

        self._is_eager = not str(tf.__version__).startswith("1.")
        """TensorFlow 1 runs graphs, and lacks what eager programs are watched by."""
        self.layouts: Layouts = layouts if layouts is not None else Layouts()
        self.names = LayerNames(tf.keras.layers.Layer, tf.keras.Model)
        self._layers = LayerWatch(notebook, self.names, self.layouts, find_line, "module" in levels)
        self._operators = OperatorWatch(notebook, self._layers, self.layouts, find_line, "op" in levels)
        self._optimizers = OptimizerRows(notebook, self.names, self.layouts)
        self._training = TrainingWatch(
            notebook, self._layers, self._operators, self._optimizers, on_step_end, on_restart
        )
        self._sessions = SessionWatch(notebook, self.layouts, show_file, levels, on_step_end)
        self.folder = os.fspath(folder) if folder is not None else ""

    def start(self) -> None:
        """Begin to watch."""
        if self._is_eager:
            self._training.start()
            self._operators.start()
        self._sessions.start()

    def stop(self) -> None:
        """Watch no more."""
        self._sessions.stop()
        if self._is_eager:
            self._operators.stop()
            self._training.stop()

    def begin_step(self) -> None:
        """Forget the step before."""
        self.layouts.begin_step()
        self._layers.begin_step()
        self._optimizers.begin_step()
        self._training.begin_step()
        self._sessions.begin_step()

    def end_step(self) -> None:
        """Add the rows that are known at the end of a step."""
        with self._operators.muted():
            self._optimizers.end_step()

    def leave_out_operators(self) -> None:
        """Take no more notes of operators."""
        self._operators.is_on = self._sessions.notes_operators = False

    @property
    def is_open(self) -> bool:
        """Whether something has been computed that no step has yet."""
        return self._training.is_open

    @property
    def has_optimizer(self) -> bool:
        """Whether the program has made an optimizer."""
        return self._training.has_optimizer or self._sessions.num_steps > 0

    @property
    def losses(self) -> list[float]:
        """The losses of the step under way."""
        return self._training.losses + self._sessions.losses

    @property
    def layers(self) -> dict[str, dict[str, Any]]:
        """By path of each of Keras' own layers that was met: its class as `type`, and its settings."""
        return dict(self.names.layers, **self._sessions.layers)

    @property
    def settings(self) -> dict[str, dict[str, list[Any]]]:
        """Of the step under way, by optimizer: its settings, one item a parameter group."""
        return dict(self._optimizers.settings, **self._sessions.settings)

    @property
    def calls(self) -> dict[str, int]:
        """Of the step under way, by optimizer: how often it applied gradients."""
        return dict(self._optimizers.calls, **self._sessions.calls)

    def sentences(self) -> list[str]:
        """Return what is not covered."""
        found = [AS_EAGER] if self._training.num_functions else []
        if self._training.has_optimizer and not self._sessions.num_steps:
            found.append(OUTSIDE)
        if self._sessions.num_unseen:
            found.append(f"{self._sessions.num_unseen} operators within branches and loops of TensorFlow 1")
        return found
