"""Notes calls of Keras' layers, and the gradients of what they take and give: `LayerWatch`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.capture.frameworks.tensorflow.observe.names import LayerNames
from jumar.capture.notes.nested import named_values

_NUM_IMAGES = 200


class Frame:
    """A layer that is being called."""

    def __init__(self, layer: Any, path: str, type_name: str) -> None:
        self.layer, self.path, self.type_name = layer, path, type_name


class Pending:
    """A forward call whose gradients are still to come."""

    def __init__(self, path: str, type_name: str, named: list[tuple[str, Any]]) -> None:
        self.path, self.type_name, self.named = path, type_name, named


class LayerWatch:
    """Listens to `Layer.__call__`. With `notes_modules=False` layers only give operators their paths."""

    def __init__(
        self, notebook: Any, names: LayerNames, layouts: Layouts, find_line: Callable[[Any], str], notes_modules: bool
    ) -> None:
        import tensorflow as tf
        from tensorflow.python.framework import ops

        self._tf, self._tensor = tf, ops.EagerTensor
        self._value: Any = (ops.EagerTensor, np.ndarray)
        self._notebook, self._names, self._layouts, self._find_line = notebook, names, layouts, find_line
        self._notes_modules = notes_modules
        self.stack: list[Frame] = []
        self.pending: list[Pending] = []
        self._images: list[Any] = []
        """The last tensors that lie in another order than PyTorch's."""
        self.is_training_only = False
        """Whether only calls under a GradientTape are the training's: the program has an optimizer."""
        self.on_outermost: Callable[[Any], None] = lambda _: None
        """Told of an outermost layer that is about to be called."""

    @property
    def top(self) -> Frame | None:
        """The innermost layer."""
        return self.stack[-1] if self.stack else None

    def begin_step(self) -> None:
        """Forget the step before."""
        self.pending, self._images = [], []

    def call(self, original: Callable[..., Any], layer: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Call a layer, and note it."""
        if not self._tf.executing_eagerly():
            return original(layer, *args, **kwargs)
        notebook = self._notebook
        inputs: list[tuple[str, Any]] = []
        path = None
        with notebook.own_work():
            named = {key: value for key, value in kwargs.items() if key != "mask"}
            inputs = [*named_values("input", args, self._value), *named_values("input", named, self._value)]
        if not inputs and any(hasattr(one, "shape") for one in self._tf.nest.flatten((args, kwargs))):
            return original(layer, *args, **kwargs)  # symbolic: Keras builds a model
        if not self.stack:
            if self.is_training_only and not is_recording():
                return self._unseen(original, layer, args, kwargs)
            self.on_outermost(layer)
        with notebook.own_work():
            path = self._names.path(layer, not self.stack, self.top.path if self.top is not None else "")
        if path is None:
            return original(layer, *args, **kwargs)
        kind = type(layer).__name__
        draft = None
        if self._notes_modules and notebook.is_open:
            with notebook.own_work():
                draft = notebook.draft("module", "forward", path, kind, kind)
                draft.source = self._find_line(sys._getframe(2))
        self.stack.append(Frame(layer, path, kind))
        if draft is not None:
            draft.start_us = notebook.now_us()
        try:
            output = original(layer, *args, **kwargs)
        finally:
            self.stack.pop()
        with notebook.own_work():
            self._leave(layer, draft, inputs, output)
        return output

    def _unseen(self, original: Callable[..., Any], layer: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Call a model outside of training: evaluation, or Keras' call that builds it."""
        was_open, self._notebook.is_open = self._notebook.is_open, False
        try:
            return original(layer, *args, **kwargs)
        finally:
            self._notebook.is_open = was_open

    def _leave(self, layer: Any, draft: Any, inputs: list[tuple[str, Any]], output: Any) -> None:
        notebook = self._notebook
        whole = output if isinstance(output, (tuple, list, dict)) else (output,)
        outputs = list(named_values("output", whole, self._tensor))
        self._layouts.learn_layer(layer, [one for _, one in inputs], [one for _, one in outputs])
        self._learn_arrays(inputs)
        if draft is None or not notebook.is_open:
            return
        draft.duration_us = notebook.now_us() - draft.start_us
        notebook.see(draft, inputs)  # tensors never change: they are as they were given
        notebook.see(draft, outputs, outputs=True)
        notebook.finish(draft)
        if is_recording():
            gradients = [("grad_" + name, one) for name, one in outputs + inputs if _has_gradient(one)]
            self.pending.append(Pending(draft.path, draft.type_name, gradients))

    def _learn_arrays(self, inputs: list[tuple[str, Any]]) -> None:
        """Give an array the layout of the tensor that the first layer inside was given in its place."""
        for _, one in inputs:
            if isinstance(one, np.ndarray) and not self._layouts.of(one):
                same = [kept for kept in self._images if kept.shape == one.shape]
                if same:
                    self._layouts.tag(one, self._layouts.of(same[0]))
            elif self._layouts.of(one) and not isinstance(one, np.ndarray):
                self._images = [*self._images[-_NUM_IMAGES:], one]

    def sources(self) -> list[Any]:
        """Return the tensors of which gradients are wanted, each once."""
        return list({id(one): one for pending in self.pending for _, one in pending.named}.values())

    def note_gradients(self, sources: list[Any], gradients: list[Any]) -> None:
        """Add a row for each call that a gradient has arrived for, the last call first."""
        by_id = {id(one): gradient for one, gradient in zip(sources, gradients) if gradient is not None}
        left = []
        for pending in reversed(self.pending):
            found = [(name, one, by_id[id(one)]) for name, one in pending.named if id(one) in by_id]
            if not any(name.startswith("grad_output") for name, _, _ in found):
                left.append(pending)  # another tape may have it
                continue
            draft = self._notebook.draft("module", "backward", pending.path, pending.type_name, pending.type_name)
            for name, one, gradient in found:
                whole = self._tf.convert_to_tensor(gradient)
                self._layouts.tag(whole, self._layouts.of(one))
                self._notebook.see(draft, [(name, whole)], outputs=name.startswith("grad_input"))
            self._notebook.finish(draft)
        self.pending = left[::-1]


def _has_gradient(tensor: Any) -> bool:
    return bool(getattr(tensor.dtype, "is_floating", False)) and not isinstance(tensor, np.ndarray)


def is_recording() -> bool:
    """Tell whether a GradientTape records."""
    try:
        from tensorflow.python.eager import record as tape
    except ImportError:  # before 2.11
        from tensorflow.python.eager import tape
    return bool(tape.could_possibly_record())
