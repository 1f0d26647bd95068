"""An ONNX model as a module of PyTorch, computed node by node; `torch.export` then makes a graph of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from jumar.tune.errors import TuneError
from jumar.tune.graph.from_onnx import elementwise, layers, layout, reduce, resize
from jumar.tune.graph.from_onnx.call import HANDLERS, Call, Value, as_tensor, dtype_of

__all__ = ["OnnxModule"]

_REGISTERED = (elementwise, layers, layout, reduce, resize)
_KNOWN_ELEMENTS = 1 << 12
"""Weights of so many elements or fewer may be shapes or settings and are kept as NumPy arrays, too."""
_DOMAINS = ("", "ai.onnx")


class OnnxModule(torch.nn.Module):
    """Takes the model's inputs in order and returns the tuple of its outputs.

    Raises TuneError, when built, for operators that are not converted, which it names.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        _refuse_unknown(model)
        self._nodes = list(model.graph.node)
        self._opset = next((one.version for one in model.opset_import if one.domain in _DOMAINS), 1)
        self._known: dict[str, np.ndarray] = {}
        self._held: dict[str, str] = {}
        for number, one in enumerate(model.graph.initializer):
            array = numpy_helper.to_array(one)
            self._held[one.name] = f"weight_{number}"
            self.register_buffer(self._held[one.name], _held_tensor(one, array))
            if array.size <= _KNOWN_ELEMENTS:
                self._known[one.name] = array
        self.inputs = [one for one in model.graph.input if one.name not in self._held]
        self._outputs = [one.name for one in model.graph.output]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the model's outputs."""
        values: dict[str, Value] = {"": None, **self._known}
        values.update(zip((one.name for one in self.inputs), inputs, strict=True))
        for node in self._nodes:
            values.update(zip(node.output, self._compute(node, values), strict=False))
        return tuple(self._tensor(name, values) for name in self._outputs)

    def _compute(self, node: onnx.NodeProto, values: Mapping[str, Value]) -> Sequence[Value]:
        attributes = {one.name: _attribute(one) for one in node.attribute}
        if node.op_type == "Constant":
            return [_constant(attributes)]
        inputs = [values.get(name) for name in node.input]
        known = {name: one for name, one in zip(node.input, inputs, strict=True) if isinstance(one, np.ndarray)}
        if known and len(known) == len({name for name in node.input if name}):
            return _evaluated(node, known, self._opset)
        held = [self._weight(name) for name in node.input]
        made = HANDLERS[node.op_type](
            Call(node.op_type, node.name, attributes, inputs, held, self._opset, len(node.output))
        )
        return made if isinstance(made, tuple) else (made,)

    def _weight(self, name: str) -> torch.Tensor | None:
        found = self._held.get(name)
        return None if found is None else self.get_buffer(found)

    def _tensor(self, name: str, values: Mapping[str, Value]) -> torch.Tensor:
        value = values.get(name)
        if value is None:
            value = self._weight(name)
        if value is None:
            raise TuneError(f"the ONNX model has no value called {name}, its output; it is damaged.")
        return as_tensor(value)


def _refuse_unknown(model: onnx.ModelProto) -> None:
    """Raise TuneError, which names them, when there are operators that are not converted."""
    names = {
        node.op_type if node.domain in _DOMAINS else f"{node.domain}.{node.op_type}"
        for node in model.graph.node
        if node.domain not in _DOMAINS or node.op_type not in {*HANDLERS, "Constant"}
    }
    if names:
        raise TuneError(
            f"the ONNX model has operators that are not converted to PyTorch's: {', '.join(sorted(names))}; "
            "export it from its source (a module:callable or a .pt2 file) in place of the .onnx file."
        )


def _held_tensor(tensor: onnx.TensorProto, array: np.ndarray) -> torch.Tensor:
    wanted = dtype_of(tensor.data_type)
    if wanted is torch.bfloat16:  # NumPy has it through an extension type only
        return torch.tensor(array.astype(np.float32)).to(wanted)
    return torch.tensor(array)


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _constant(attributes: Mapping[str, Any]) -> np.ndarray:
    """Return the value of a Constant node (one of its attributes)."""
    ((name, value),) = attributes.items()
    if name in {"value", "value_float", "value_int", "value_floats", "value_ints"}:
        dtype = {"value_float": np.float32, "value_floats": np.float32}.get(name)
        return np.asarray(value, dtype=dtype)
    raise TuneError(f"the ONNX model has a Constant of {name}, which is not converted to PyTorch's.")


def _evaluated(node: onnx.NodeProto, known: Mapping[str, np.ndarray], opset: int) -> list[Value]:
    """Compute a node of known inputs with ONNX's own reference."""
    from onnx.reference import ReferenceEvaluator

    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in known.items()
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    found = [np.asarray(one) for one in ReferenceEvaluator(model).run(None, dict(known))]
    return list(found)
