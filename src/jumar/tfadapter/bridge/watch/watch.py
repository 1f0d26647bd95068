"""`Watch`: stands around TensorFlow's sessions, functions and optimizers while a program runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from jumar.tfadapter.bridge.dump import Dumper
from jumar.tfadapter.bridge.watch.functions import Functions, optimizer_methods
from jumar.tfadapter.bridge.watch.sessions import Sessions
from jumar.tfadapter.bridge.watch.steps import Steps


class Watch:
    """Wraps what is watched, and puts it back."""

    def __init__(
        self, stop_after: int | None = None, on_step: Callable[[int], None] | None = None,
        first_step: Callable[..., None] | None = None,
    ) -> None:  # fmt: skip
        """`first_step` is told of the first step: (session, what it fetched, what it was fed) or, of Keras, (model,).

        What came from a data set counts as fed, too.
        """
        self._steps = Steps(stop_after, on_step, first_step)
        self._sessions, self._functions = Sessions(self._steps), Functions(self._steps)
        self._kept: list[tuple[Any, str, Any]] = []

    @property
    def num_steps(self) -> int:
        """Steps so far."""
        return self._steps.num_done

    @property
    def was_stopped(self) -> bool:
        """Whether the program was ended after its last wanted step."""
        return self._steps.was_stopped

    @property
    def used_npu(self) -> bool:
        """Whether a session had options for the NPU."""
        return self._sessions.used_npu

    @property
    def dumpers(self) -> list[Dumper]:
        """The dumpers of sessions."""
        return self._sessions.dumpers

    def start(self) -> None:
        """Wrap."""
        from tensorflow.python.client.session import BaseSession
        from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

        self._wrap(BaseSession, "__init__", self._sessions.made)
        self._wrap(BaseSession, "run", self._sessions.run)
        self._wrap(BaseSession, "_make_callable_from_options", self._sessions.callable)
        self._wrap(tf.keras.Model, "make_train_function", self._functions.make_train_function)
        self._wrap(Function, "__call__", self._functions.call)
        for owner, name in optimizer_methods():
            self._wrap(owner, name, self._functions.apply)

    def stop(self) -> None:
        """Put back what was wrapped."""
        for owner, name, original in reversed(self._kept):
            setattr(owner, name, original)
        self._kept.clear()

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            return around(original, *arguments, **named)

        self._kept.append((owner, name, original))
        setattr(owner, name, wrapped)
