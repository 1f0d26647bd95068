"""`RoundedGraph`: a graph of a session whose matrix operators round."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from jumar.tfadapter.bridge.rounding.modes import KEEPS
from jumar.tfadapter.bridge.rounding.rounding import MATRIX, Rounding
from jumar.tfadapter.bridge.state import STATE

PREFIX = "jumar_rounding"


class RoundedGraph:
    """A graph of a session whose matrix operators are rounded before they first run."""

    def __init__(self, graph: Any, rounding: Rounding) -> None:
        self._graph, self.rounding = graph, rounding
        self._num_done = 0
        self._inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        """Name of a matrix operator's output -> the rounded tensor that is read in its place."""

    def update(self) -> None:
        """Round the operators that came since the last call."""
        operations = self._graph.get_operations()
        new = operations[self._num_done :]
        if not new:
            return
        is_finalized = self._graph.finalized
        if is_finalized:
            self._graph._unsafe_unfinalize()
        with self._graph.as_default(), tf.control_dependencies(None), tf.name_scope(f"{PREFIX}/"):
            for one in new:
                self._redirect(one)
            for one in new:
                if one.type in MATRIX:
                    self._operator(one)
        if is_finalized:
            self._graph.finalize()
        self._num_done = len(self._graph.get_operations())

    def _redirect(self, operation: Any) -> None:
        """Let an operator that was made later read the rounded outputs."""
        for place, tensor in enumerate(operation.inputs):
            if (rounded := self.outputs.get(tensor.name)) is not None:
                operation._update_input(place, rounded)

    def _operator(self, operation: Any) -> None:
        if KEEPS in operation.node_def.attr:
            return
        if operation._get_control_flow_context() is not None:
            STATE.not_shown["rounding of matrix operators inside loops and conditions of a graph"] = None
            return
        for place, tensor in enumerate(operation.inputs):
            if tensor.dtype == tf.float32:
                if tensor.name not in self._inputs:
                    self._inputs[tensor.name] = self.rounding.round(tensor)
                operation._update_input(place, self._inputs[tensor.name])
        for tensor in operation.outputs if self.rounding.outputs else ():
            if tensor.dtype == tf.float32:
                readers = tensor.consumers()
                rounded = self.outputs[tensor.name] = self.rounding.round(tensor)
                for reader in readers:
                    for place, read in enumerate(reader.inputs):
                        if read is tensor or read.name == tensor.name:
                            reader._update_input(place, rounded)

    def read(self, fetches: Any) -> Any:
        """Return fetches of any nesting with rounded tensors in the place of exact ones."""
        if isinstance(fetches, dict):
            return type(fetches)((key, self.read(value)) for key, value in fetches.items())
        if isinstance(fetches, tuple) and hasattr(fetches, "_fields"):
            return type(fetches)(*map(self.read, fetches))
        if isinstance(fetches, (list, tuple)):
            return type(fetches)(map(self.read, fetches))
        name = fetches if isinstance(fetches, str) else getattr(fetches, "name", None)
        return self.outputs.get(name, fetches) if isinstance(name, str) else fetches


_GRAPHS: WeakKeyDictionary[Any, RoundedGraph | None] = WeakKeyDictionary()
"""Graphs that have run; None: without rounding, and TensorFlow does not let operators change that have run."""


def rounded_graph(graph: Any, rounding: Rounding | None) -> RoundedGraph | None:
    """Return the rounding of a graph that is to be run, up to date. The first run decides how a graph rounds."""
    if graph not in _GRAPHS:
        _GRAPHS[graph] = None if rounding is None else RoundedGraph(graph, rounding)
    found = _GRAPHS[graph]
    if found is not None:
        found.update()
    elif rounding is not None:
        STATE.not_shown["rounding in a graph that a session without a precision mode has run before"] = None
    return found
