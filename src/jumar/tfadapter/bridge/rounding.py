"""`Rounding`: matrix operators take and give float16 (or bfloat16) where a precision mode says so.

The public page on precision modes: matrix operators calculate in the smaller type, whatever the mode that allows it;
which vector operators follow depends on the mode and on tables of the vendor, and is not shown. A product of the CPU adds up
in float32, as the matrix unit does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.checks.subject import family_of

MATRIX = frozenset({
    "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "Conv3D",
    "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2", "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput", "Einsum", "MatMul",
})  # fmt: skip
_HALF = frozenset({
    "allow_fp32_to_fp16", "allow_mix_precision", "allow_mix_precision_fp16", "cube_fp16in_fp32out", "force_fp16", "fp16",
    "mixed_float16",
})  # fmt: skip
_BFLOAT = frozenset({"allow_fp32_to_bf16", "allow_mix_precision_bf16", "mixed_bfloat16"})
PREFIX = "jumar_rounding"


@dataclass(frozen=True)
class Rounding:
    """How matrix operators round."""

    dtype: Any
    """tf.float16 or tf.bfloat16."""
    outputs: bool = True
    saturates: bool = False
    """Whether a value that is too large becomes the largest one, as on the first chips (Ascend 910A)."""

    def round(self, tensor: Any) -> Any:
        """Return a float32 tensor with the values that the smaller type has."""
        if self.saturates:
            tensor = tf.clip_by_value(tensor, self.dtype.min, self.dtype.max)
        return tf.cast(tf.cast(tensor, self.dtype), tf.float32)


def rounding_of(options: Mapping[str, Any]) -> Rounding | None:
    """Return what `precision_mode` or `precision_mode_v2` asks for; None where all keeps its type."""
    values = {_text(options.get(name)) for name in ("precision_mode", "precision_mode_v2")}
    saturates = family_of(STATE.soc or "") == "A1"
    if values & _HALF:
        found = Rounding(tf.float16, "cube_fp16in_fp32out" not in values, saturates)
    elif values & _BFLOAT:
        found = Rounding(tf.bfloat16)
    else:
        return None
    STATE.not_shown["vector operators in a smaller type: of a precision mode only matrix operators are rounded"] = None
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class RoundedGraph:
    """A graph of a session whose matrix operators are rounded before they first run."""

    def __init__(self, graph: Any, rounding: Rounding) -> None:
        self._graph, self._rounding = graph, rounding
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
        if operation._get_control_flow_context() is not None:
            STATE.not_shown["rounding of matrix operators inside loops and conditions of a graph"] = None
            return
        for place, tensor in enumerate(operation.inputs):
            if tensor.dtype == tf.float32:
                if tensor.name not in self._inputs:
                    self._inputs[tensor.name] = self._rounding.round(tensor)
                operation._update_input(place, self._inputs[tensor.name])
        for tensor in operation.outputs if self._rounding.outputs else ():
            if tensor.dtype == tf.float32:
                readers = tensor.consumers()
                rounded = self.outputs[tensor.name] = self._rounding.round(tensor)
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


_GRAPHS: WeakKeyDictionary[Any, RoundedGraph] = WeakKeyDictionary()


def rounded_graph(graph: Any, rounding: Rounding) -> RoundedGraph:
    """Return the graph's rounding, up to date. The first session that asks decides how a graph rounds."""
    if graph not in _GRAPHS:
        _GRAPHS[graph] = RoundedGraph(graph, rounding)
    found = _GRAPHS[graph]
    found.update()
    return found


def round_eagerly(rounding: Rounding) -> None:
    """Round the matrix operators that run from now on, and those of functions that are traced from now on."""
    from tensorflow.python.eager import execute, tape
    from tensorflow.python.eager.context import context
    from tensorflow.python.framework import op_callbacks

    def rounded(tensors: Any) -> list[Any]:
        return [rounding.round(one) if one.dtype == tf.float32 else one for one in tensors]

    def note(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> Any:
        del op_name
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        if kind not in MATRIX:
            return outputs
        if graph is not None:
            operation = outputs[0].op
            for place, tensor in enumerate(rounded(inputs)):
                operation._update_input(place, tensor)
            return rounded(outputs) if rounding.outputs else outputs
        with tape.stop_recording():
            found = execute.quick_execute(kind, len(outputs), rounded(inputs), attrs, context())
            return rounded(found) if rounding.outputs else found

    op_callbacks.add_op_callback(note)
