"""Where a step ends, losses, loss scales and backward passes of a program that runs eagerly: `TrainingWatch`.

A step ends when Keras' function of a batch, or the outermost `tf.function` that applied gradients, has returned; in a
loop written by hand when the optimizer has applied gradients. Of several optimizers the one that completes the first
round ends each step. Without any optimizer a step is one call of an outermost model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.layers import LayerWatch
from jumar.capture.frameworks.tensorflow.observe.operators import OperatorWatch
from jumar.capture.frameworks.tensorflow.observe.optimizers import OptimizerRows, number_of, optimizer_methods
from jumar.capture.notes.patches import Patches


class TrainingWatch:
    """Calls `on_step_end` when a step is complete, `on_restart` when the steps so far turn out to be none."""

    def __init__(
        self,
        notebook: Any,
        layers: LayerWatch,
        operators: OperatorWatch,
        optimizers: OptimizerRows,
        on_step_end: Callable[[], None],
        on_restart: Callable[[], None],
    ) -> None:
        self._notebook, self._layers, self._operators, self._optimizers = notebook, layers, operators, optimizers
        self._on_step_end, self._on_restart = on_step_end, on_restart
        self._patches = Patches()
        self._depth = 0
        """Functions of Keras or `tf.function` that are running."""
        self._applied = False
        self._inner = 0
        """Optimizers that are applying: a wrapper calls the one that it wraps."""
        self._num_applied = 0
        self._known: list[Any] = []
        self._stepped: list[Any] = []
        self._leader: Any = None
        self._unscaled: dict[int, tuple[Any, Any]] = {}
        self.in_backward = self.has_gradients = False
        self.has_optimizer = self.is_open = False
        self.num_functions = 0
        """Calls of functions that would have been graphs."""
        self.losses: list[float] = []

    def start(self) -> None:
        """Begin to watch."""
        import tensorflow as tf

        try:
            from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
        except ImportError:  # before 2.11
            from tensorflow.python.eager.def_function import Function
        self._tf = tf
        self._was_eager = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        layer = owner_of(tf.keras.layers.Layer, "__call__")
        self._around(
            layer, "__call__", lambda original, one, *args, **kwargs: self._layers.call(original, one, args, kwargs)
        )
        self._around(tf.GradientTape, "gradient", self._gradient)
        self._around(owner_of(tf.keras.Model, "make_train_function"), "make_train_function", self._make_train_function)
        self._around(Function, "__call__", self._function)
        done: set[Any] = set()
        for kind, method in optimizer_methods():
            self._watch_optimizer(kind, method, done)
        scaler = tf.keras.mixed_precision.LossScaleOptimizer
        for kind in (scaler, *scaler.__subclasses__()):
            for method in ("apply", "apply_gradients"):
                if method in vars(kind) and (kind, method) not in done:
                    self._around(kind, method, self._apply_scaled)
                    done.add((kind, method))
            for method in ("get_scaled_loss", "scale_loss"):
                if method in vars(kind):
                    self._around(kind, method, self._scale)
        for name in ("disable_eager_execution", "disable_v2_behavior"):
            self._around(tf.compat.v1, name, self._leave_eager)
        self._layers.on_outermost = self._outermost
        self._operators.phase_of = self._phase

    def stop(self) -> None:
        """Take all wrappers away."""
        self._patches.restore()
        self._tf.config.run_functions_eagerly(self._was_eager)

    def _leave_eager(self, original: Any) -> None:
        """Let a program be graphs: Keras asks whether functions run eagerly."""
        self._tf.config.run_functions_eagerly(False)
        original()

    def begin_step(self) -> None:
        """Forget the step before."""
        self.in_backward = self.has_gradients = self.is_open = self._applied = False
        self._unscaled, self.losses, self._num_applied = {}, [], 0

    def _around(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        original = vars(owner)[name]

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        for attribute in ("__name__", "__doc__", "__module__", "__qualname__", "__wrapped__"):
            try:
                setattr(wrapper, attribute, original if attribute == "__wrapped__" else getattr(original, attribute))
            except AttributeError:
                continue
        self._patches.replace(owner, name, wrapper)

    def _watch_optimizer(self, kind: Any, method: str, done: set[Any]) -> None:
        owner = owner_of(kind, method)
        if (owner, method) not in done:
            done.add((owner, method))
            self._around(owner, method, self._apply)
        owner = owner_of(kind, "__init__")
        if (owner, "__init__") not in done:
            done.add((owner, "__init__"))
            self._around(owner, "__init__", self._construct)

    def _phase(self) -> str:
        if self.in_backward:
            return "backward"
        return "optimizer" if self.has_gradients and self._layers.top is None else "forward"

    def _outermost(self, layer: Any) -> None:
        is_model = isinstance(layer, self._tf.keras.Model)
        if is_model and not self.has_optimizer and self.is_open:
            self._on_step_end()
        self.is_open = self.is_open or is_model
        if is_model:
            self.has_gradients = False

    def _construct(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        self._known.append(optimizer)
        if not self.has_optimizer:
            self.has_optimizer = self._layers.is_training_only = True
            self._on_restart()

    def _make_train_function(self, original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(model, *args, **kwargs)
        inner = model.train_function
        if inner is None or getattr(inner, "is_watched", False):
            return answer

        def watched(*given: Any, **named: Any) -> Any:
            return self._counted(inner, given, named)

        self.num_functions += 1
        watched.is_watched = True  # type: ignore[attr-defined]
        model.train_function = watched
        return watched

    def _function(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.num_functions += 1
        return self._counted(original, (function, *args), kwargs)

    def _counted(self, function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        self._depth += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self._depth -= 1
        if not self._depth and self._applied:
            self._on_step_end()
        return result

    def _gradient(self, original: Any, tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        notebook = self._notebook
        if not self._tf.executing_eagerly() or self.in_backward:
            return original(tape, target, sources, *args, **kwargs)
        extra: list[Any] = []
        with notebook.own_work(), self._operators.muted():
            self._note_loss(target)
            extra = self._layers.sources() if notebook.is_open else []
        self.in_backward = True
        try:
            if extra:
                result, gradients = original(tape, target, (sources, extra), *args, **kwargs)
            else:
                result, gradients = original(tape, target, sources, *args, **kwargs), []
        finally:
            self.in_backward = False
        self.has_gradients = True
        with notebook.own_work(), self._operators.muted():
            if extra and notebook.is_open:
                self._layers.note_gradients(extra, gradients)
        return result

    def _note_loss(self, target: Any) -> None:
        flat = [one for one in self._tf.nest.flatten(target) if hasattr(one, "numpy")]
        for tensor in flat:
            known = self._unscaled.get(id(tensor))
            loss = known[1] if known is not None and known[0] is tensor else tensor
            values = np.asarray(loss.numpy()).astype(float)
            self.losses.append(float(values.mean()) if values.size else float("nan"))
            if self._notebook.is_open:
                draft = self._notebook.draft("loss", "forward", "", "", "loss")
                self._notebook.see(draft, [("output.0", loss)], outputs=True)
                self._notebook.finish(draft)

    def _apply(self, original: Any, optimizer: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply gradients: (gradient, variable) pairs, or in Keras 3 gradients and then variables."""
        if not self._tf.executing_eagerly() or self._inner:
            return original(optimizer, grads, *args, **kwargs)
        grads = list(grads)
        notebook, draft = self._notebook, None
        with notebook.own_work(), self._operators.muted():
            draft = self._optimizers.before(optimizer, pairs_of(optimizer, grads, args, kwargs))
        self._inner += 1
        was_open, notebook.is_open = notebook.is_open, False  # parameter rows say what its operators did
        try:
            result = original(optimizer, grads, *args, **kwargs)
        finally:
            self._inner -= 1
            notebook.is_open = was_open
        if draft is not None:
            notebook.finish(draft)
        self._ended_by(optimizer)
        return result

    def _apply_scaled(self, original: Any, optimizer: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply gradients under a loss scale: the optimizer inside is not called where they overflow."""
        if not self._tf.executing_eagerly():
            return original(optimizer, grads, *args, **kwargs)
        grads, before = list(grads), self._num_applied
        pairs: list[tuple[Any, Any]] = []
        with self._notebook.own_work(), self._operators.muted():
            scale = _scale_of(optimizer)
            if scale is not None:
                self._notebook.info["loss_scale"] = float(scale)
            pairs = pairs_of(optimizer, grads, args, kwargs)
        result = original(optimizer, grads, *args, **kwargs)
        with self._notebook.own_work(), self._operators.muted():
            skipped = self._num_applied == before
            self._notebook.info.setdefault("skipped", skipped)
            if skipped and self._notebook.is_open:
                self._optimizers.note_gradients(pairs)
        if self._num_applied == before:
            self._ended_by(getattr(optimizer, "inner_optimizer", optimizer))
        return result

    def _scale(self, original: Any, optimizer: Any, loss: Any) -> Any:
        result = original(optimizer, loss)
        if hasattr(result, "numpy"):
            self._unscaled[id(result)] = result, loss
        return result

    def _ended_by(self, optimizer: Any) -> None:
        """Take in that an optimizer has applied gradients, or left them out."""
        self._num_applied += 1
        self._applied = self.is_open = self.has_optimizer = self._layers.is_training_only = True
        if self._depth:
            return
        if self._leader is None:
            if any(one is optimizer for one in self._stepped) or self._is_last(optimizer):
                self._leader = optimizer
            self._stepped.append(optimizer)
        if optimizer is self._leader:
            self._on_step_end()

    def _is_last(self, optimizer: Any) -> bool:
        """Tell whether all optimizers of the program have stepped once with this one."""
        waiting = [
            one for one in self._known if one is not optimizer and not any(one is done for done in self._stepped)
        ]
        inside = [getattr(one, "inner_optimizer", None) for one in self._known]
        return not [one for one in waiting if getattr(one, "inner_optimizer", None) is None and not _is_in(one, inside)]


def _scale_of(optimizer: Any) -> Any:
    """Return the loss scale of this step. That of Keras 3 is a variable once the optimizer is built."""
    scale = number_of(getattr(optimizer, "loss_scale", None))
    if scale is None and getattr(optimizer, "built", False):
        scale = number_of(getattr(optimizer, "dynamic_scale", None))
    return number_of(getattr(optimizer, "initial_scale", None)) if scale is None else scale


def pairs_of(optimizer: Any, grads: list[Any], args: tuple[Any, ...], kwargs: Any) -> list[tuple[Any, Any]]:
    """Return (gradient, variable) pairs of a call of `apply_gradients` or `apply`."""
    if grads and isinstance(grads[0], (tuple, list)) and len(grads[0]) == 2:
        return [(gradient, variable) for gradient, variable in grads]
    given = args[0] if args else kwargs.get("trainable_variables")
    variables = given if given is not None else getattr(optimizer, "_trainable_variables", ())
    return list(zip(grads, variables))


def owner_of(kind: Any, name: str) -> Any:
    """Return the class that defines a method which a class has."""
    return next(one for one in kind.__mro__ if name in vars(one))


def _is_in(one: Any, many: list[Any]) -> bool:
    return any(one is other for other in many)
