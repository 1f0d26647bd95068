"""`Functions`: steps outside sessions: of Keras' `fit`, of functions and loops that apply gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import tensorflow as tf

from jumar.tfadapter.bridge.watch.steps import Steps


def optimizer_methods() -> Iterator[tuple[Any, str]]:
    """Yield each class of Keras' optimizers with the name of the method that applies gradients."""
    new = tf.keras.optimizers.Optimizer
    yield new, "apply" if hasattr(new, "apply") else "apply_gradients"  # Keras 3: both call `apply`
    legacy = getattr(tf.keras.optimizers, "legacy", None)
    if legacy is not None and hasattr(legacy, "Optimizer") and not hasattr(new, "apply"):
        yield legacy.Optimizer, "apply_gradients"


class Functions:
    """Stands around Keras' and TensorFlow's functions: each method here is given the original one first."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._training: WeakSet[Any] = WeakSet()
        """Functions that apply gradients."""
        self._running: list[Any] = []
        """The function that the program called, while it runs; of `fit`, the model."""

    def make_train_function(self, original: Any, model: Any, *arguments: Any, **named: Any) -> Any:
        """Let a model's function of a training step count steps."""
        answer = original(model, *arguments, **named)
        inner = model.train_function
        if inner is None or getattr(inner, "counts_steps", False):
            return answer

        def counted(*given: Any) -> Any:
            self._running.append(model)
            try:
                result = inner(*given)
            finally:
                self._running.pop()
            self._steps.tell_first(model)
            self._steps.done()
            return result

        counted.counts_steps = True  # type: ignore[attr-defined]
        model.train_function = counted
        return counted

    def call(self, original: Any, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call a function; a step, if it applies gradients and nothing around it counts."""
        if self._running:
            return original(function, *arguments, **named)
        self._running.append(function)
        try:
            answer = original(function, *arguments, **named)
        finally:
            self._running.pop()
        if function in self._training:
            self._steps.done()
        return answer

    def apply(self, original: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
        """Apply gradients; a step, unless a function is traced, whose calls are steps then."""
        answer = original(optimizer, *arguments, **named)
        if not tf.executing_eagerly():
            self._training.update(one for one in self._running[:1] if not isinstance(one, tf.keras.Model))
        elif not any(isinstance(one, tf.keras.Model) for one in self._running):
            self._steps.done()
        return answer
