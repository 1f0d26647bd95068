"""An ONNX model as a module of PyTorch, computed node by node; `torch.export` then makes a graph of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from jumar.tune.graph.from_onnx import elementwise, layers, layout, recurrent, reduce, resize
from jumar.tune.graph.from_onnx.call import HANDLERS, Call, Value, as_tensor, dtype_of
from jumar.tune.graph.from_onnx.control import RUNNERS, Body
from jumar.tune.model.errors import TuneError

__all__ = ["OnnxModule"]

_REGISTERED = (elementwise, layers, layout, recurrent, reduce, resize)
_KNOWN_ELEMENTS = 1 << 12
"""Weights of so many elements or fewer may be shapes or settings and are kept as NumPy arrays, too."""
_DOMAINS = ("", "ai.onnx")


class OnnxModule(torch.nn.Module):
    """Takes the model's inputs in order and returns the tuple of its outputs.

    Raises TuneError, when built, for operators that are not converted, which it names.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        if names := sorted(set(_unknown(model.graph))):
            raise TuneError(
                f"the ONNX model has operators that are not converted to PyTorch's: {', '.join(names)}; "
                "export it from its source (a module:callable or a .pt2 file) in place of the .onnx file."
            )
        self._opset = next((one.version for one in model.opset_import if one.domain in _DOMAINS), 1)
        self._scope = self._scope_of(model.graph)
        self.inputs = [one for one in model.graph.input if one.name not in self._scope.held]

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the model's outputs."""
        given = dict(zip((one.name for one in self.inputs), inputs, strict=True))
        made = self._run(self._scope, given, _Surroundings({}, {}))
        return tuple(
            as_tensor(_there(name, value)) for name, value in zip(self._scope.outputs, made, strict=True)
        )  # fmt: skip

    def _scope_of(self, graph: onnx.GraphProto) -> _Scope:
        """Return a graph as it is run; its weights, and those of the graphs in its nodes, become buffers."""
        known: dict[str, np.ndarray] = {}
        held: dict[str, str] = {}
        for one in graph.initializer:
            array = numpy_helper.to_array(one)
            held[one.name] = f"weight_{len(self._buffers)}"
            self.register_buffer(held[one.name], _held_tensor(one, array))
            if array.size <= _KNOWN_ELEMENTS:
                known[one.name] = array
        nodes = list(graph.node)
        inner = {
            (number, one.name): self._scope_of(one.g)
            for number, node in enumerate(nodes)
            for one in node.attribute
            if one.type == onnx.AttributeProto.GRAPH
        }
        inputs = [one.name for one in graph.input if one.name not in held]
        return _Scope(nodes, inputs, [one.name for one in graph.output], known, held, inner)

    def _run(self, scope: _Scope, given: Mapping[str, Value], around: _Surroundings) -> list[Value]:
        """Compute a graph's outputs, within what surrounds it."""
        values: dict[str, Value] = {**around.values, "": None, **scope.known, **given}
        held = {**{name: one for name, one in around.held.items() if name not in given}, **scope.held}
        for number, node in enumerate(scope.nodes):
            here = _Surroundings(values, held)
            for name, made in zip(node.output, self._compute(scope, number, here), strict=False):
                if name:  # an output that is left out has the name of every input that is left out
                    values[name] = made
                    held.pop(name, None)
        return [values[name] if values.get(name) is not None else self._weight(name, held) for name in scope.outputs]

    def _compute(self, scope: _Scope, number: int, here: _Surroundings) -> Sequence[Value]:
        node = scope.nodes[number]
        attributes = {one.name: _attribute(one) for one in node.attribute}
        if node.op_type == "Constant":
            return [_constant(attributes)]
        inputs = [here.values.get(name) for name in node.input]
        held = [self._weight(name, here.held) for name in node.input]
        call = Call(node.op_type, node.name, attributes, inputs, held, self._opset, len(node.output))
        if node.op_type in RUNNERS:
            return RUNNERS[node.op_type](call, self._bodies(scope, number, here))
        known = {name: one for name, one in zip(node.input, inputs, strict=True) if isinstance(one, np.ndarray)}
        if known and len(known) == len({name for name in node.input if name}):
            return _evaluated(node, known, self._opset)
        made = HANDLERS[node.op_type](call)
        return made if isinstance(made, tuple) else (made,)

    def _bodies(self, scope: _Scope, number: int, here: _Surroundings) -> dict[str, Body]:
        def body(inner: _Scope) -> Body:
            return lambda given: self._run(inner, dict(zip(inner.inputs, given, strict=True)), here)

        return {name: body(inner) for (place, name), inner in scope.inner.items() if place == number}

    def _weight(self, name: str, held: Mapping[str, str]) -> torch.Tensor | None:
        found = held.get(name)
        return None if found is None else self.get_buffer(found)


@dataclass(frozen=True, slots=True)
class _Scope:
    """A graph, of the model or in one of its nodes."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Sequence[str]
    outputs: Sequence[str]
    known: Mapping[str, np.ndarray]
    held: Mapping[str, str]
    """Names of buffers by names of weights."""
    inner: Mapping[tuple[int, str], _Scope]
    """Graphs in its nodes, by the node's number and the attribute's name."""


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What a graph in a node can read of the graphs around it."""

    values: Mapping[str, Value]
    held: Mapping[str, str]


def _there(name: str, value: Value) -> torch.Tensor | np.ndarray:
    if value is None:
        raise TuneError(f"the ONNX model has no value called {name}, its output; it is damaged.")
    return value


def _unknown(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the operators that are not converted, also those of the graphs in nodes."""
    for node in graph.node:
        if node.domain not in _DOMAINS:
            yield f"{node.domain}.{node.op_type}"
        elif node.op_type not in {*HANDLERS, *RUNNERS, "Constant"}:
            yield node.op_type
        for one in node.attribute:
            if one.type == onnx.AttributeProto.GRAPH:
                yield from _unknown(one.g)


def _held_tensor(tensor: onnx.TensorProto, array: np.ndarray) -> torch.Tensor:
    wanted = dtype_of(tensor.data_type)
    return as_tensor(array).to(wanted)  # older packages of ONNX read bfloat16 as float32


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [one.decode() for one in value]
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
    found = iter(ReferenceEvaluator(model).run(None, dict(known)))
    return [np.asarray(next(found)) if name else None for name in node.output]
