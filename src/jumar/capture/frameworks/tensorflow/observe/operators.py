"""Notes the operators that TensorFlow runs eagerly: `OperatorWatch`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from jumar.capture.frameworks.tensorflow.observe.layers import LayerWatch
from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.capture.frameworks.tensorflow.observe.names import plain_values

PREFIX = "tf::"
NO_OPERATORS = frozenset({
    "ReadVariableOp", "VarHandleOp", "VarIsInitializedOp", "DestroyResourceOp", "NoOp", "IteratorGetNext", "Shape",
    "Const",
    "OptionalHasValue", "OptionalGetValue", "IteratorGetNextAsOptional", "MakeIterator", "AnonymousIteratorV3",
    "AssignVariableOp", "DeleteIterator", "DeleteMemoryCache", "StringFormat", "PrintV2", "Placeholder", "IteratorV2",
})  # fmt: skip
"""What TensorFlow runs although nothing is computed."""


class OperatorWatch:
    """Listens to TensorFlow's operator callbacks. With `notes=False` it only learns how tensors lie."""

    def __init__(
        self, notebook: Any, layers: LayerWatch, layouts: Layouts, find_line: Callable[[Any], str], notes: bool
    ) -> None:
        self._notebook, self._layers, self._layouts, self._find_line = notebook, layers, layouts, find_line
        self.is_on = notes
        self.phase_of: Callable[[], str] = lambda: "forward"
        self._is_inside = False
        self._last_us = 0.0

    def start(self) -> None:
        """Begin to listen."""
        from tensorflow.python.framework import op_callbacks

        op_callbacks.add_op_callback(self._called)

    def stop(self) -> None:
        """Listen no more."""
        from tensorflow.python.framework import op_callbacks

        with suppress(ValueError, KeyError):  # another thread began
            op_callbacks.remove_op_callback(self._called)

    def muted(self) -> _Muted:
        """Do the observer's own calculations."""
        return _Muted(self)

    def _called(
        self, op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        if graph is not None or self._is_inside:
            return
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        if kind in NO_OPERATORS:
            return
        with self.muted(), self._notebook.own_work():
            self._note(kind, _attributes(attrs), inputs, outputs)

    def _note(self, kind: str, attributes: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        given = [(place, one) for place, one in enumerate(inputs) if _is_number(one)]
        results = [(place, one) for place, one in enumerate(outputs) if _is_number(one)]
        self._layouts.learn_operator(kind, attributes, [one for _, one in given], [one for _, one in results])
        notebook = self._notebook
        if not (self.is_on and notebook.is_open):
            return
        phase = self.phase_of()
        top = self._layers.top
        path, layer = (top.path, top.type_name) if top is not None and phase == "forward" else ("", "")
        draft = notebook.draft("op", phase, path, layer, PREFIX + kind)
        draft.source = self._find_line(sys._getframe(3))
        draft.arguments = plain_values(
            {
                key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                for key, value in attributes.items()
            }
        )
        notebook.see(draft, [(f"input.{place}", one) for place, one in given])
        notebook.see(draft, [(f"output.{place}", one) for place, one in results], outputs=True)
        notebook.finish(draft)


class _Muted:
    def __init__(self, watch: OperatorWatch) -> None:
        self._watch = watch

    def __enter__(self) -> None:
        self._was, self._watch._is_inside = self._watch._is_inside, True

    def __exit__(self, *_: Any) -> None:
        self._watch._is_inside = self._was


def _attributes(attrs: Any) -> dict[str, Any]:
    flat: tuple[Any, ...] = tuple(attrs or ())
    return {
        str(name): value
        for name, value in zip(flat[::2], flat[1::2])
        if name not in ("T", "dtype", "_class", "container")
    }


def _is_number(tensor: Any) -> bool:
    dtype = getattr(tensor, "dtype", None)
    return hasattr(tensor, "numpy") and (
        getattr(dtype, "is_floating", False)
        or getattr(dtype, "is_integer", False)
        or getattr(dtype, "is_bool", False)
        or getattr(dtype, "is_complex", False)
    )
