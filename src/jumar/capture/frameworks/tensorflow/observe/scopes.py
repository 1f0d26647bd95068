"""Reads name scopes of a graph as modules: what a scope takes and gives, and what kind of layer it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jumar.capture.frameworks.tensorflow.observe.graphs import NOT_ROWS, RunPlan, is_read, scope_of

_KINDS = (
    ("DepthwiseConv2dNative", "DepthwiseConv2D"), ("Conv2DBackpropInput", "Conv2DTranspose"), ("Conv2D", "Conv2D"),
    ("Conv3D", "Conv3D"), ("FusedBatchNormV3", "BatchNormalization"), ("FusedBatchNorm", "BatchNormalization"),
    ("MatMul", "Dense"), ("MaxPool", "MaxPooling2D"), ("AvgPool", "AveragePooling2D"), ("GatherV2", "Embedding"),
    ("ResourceGather", "Embedding"),
)  # fmt: skip
"""Operators directly in a scope, and the layer of Keras that it then is."""


class Scope:
    """A name scope: its forward operators, what they take from outside and what others take of them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.operations: list[Any] = []
        self.kind = ""
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    @property
    def last(self) -> Any:
        """The operator with which the scope is complete."""
        return self.operations[-1]


def scopes_of(plan: RunPlan) -> list[Scope]:
    """Return the scopes of the forward pass, inner ones before those around them."""
    found: dict[str, Scope] = {}
    forward = [one for one in plan.operations if plan.phase(one) == "forward"]
    calculating = [one for one in forward if one.type not in NOT_ROWS and not is_read(one)]
    for operation in calculating:
        parts = scope_of(operation).split(".")
        for number in range(1, len(parts) + 1):
            path = ".".join(parts[:number])
            if path:
                found.setdefault(path, Scope(path)).operations.append(operation)
    taken = _taken(forward)
    for scope in found.values():
        _complete(scope, taken, {one.name for one in plan.losses})
    whole = [one for one in found.values() if one.inputs and any(each.dtype.is_floating for each in one.outputs)]
    return sorted(whole, key=lambda scope: (scope.last._id, -scope.path.count(".")))


def _taken(forward: Sequence[Any]) -> dict[str, list[str]]:
    """Return the scopes of the forward operators that take each tensor."""
    found: dict[str, list[str]] = {}
    for operation in forward:
        for tensor in operation.inputs:
            found.setdefault(tensor.name, []).append(scope_of(operation))
    return found


def _complete(scope: Scope, taken: dict[str, list[str]], losses: Any) -> None:
    inside = {one.name for one in scope.operations}
    inputs: dict[str, Any] = {}
    for operation in scope.operations:
        for tensor in operation.inputs:
            brings = tensor.op.type in ("Placeholder", "PlaceholderWithDefault", "IteratorGetNext")
            calculates = tensor.op.type not in NOT_ROWS and not is_read(tensor.op)
            if tensor.op.name not in inside and (brings or calculates) and _is_below(scope, tensor) is False:
                inputs[tensor.name] = tensor
        for place, tensor in enumerate(operation.outputs):
            readers = taken.get(tensor.name, [])
            leaves = any(path != scope.path and not path.startswith(scope.path + ".") for path in readers)
            if leaves or tensor.name in losses or (not readers and not place and operation is scope.last):
                scope.outputs.append(tensor)
    scope.inputs = list(inputs.values())
    direct = {one.type for one in scope.operations if scope_of(one) == scope.path}
    scope.kind = next((layer for kind, layer in _KINDS if kind in direct), "Scope")


def _is_below(scope: Scope, tensor: Any) -> bool:
    path = scope_of(tensor.op)
    return path == scope.path or path.startswith(scope.path + ".")


def settings_of(scope: Scope) -> dict[str, Any]:
    """Return the settings of the layer that a scope is, by Keras' names."""
    found: dict[str, Any] = {"type": scope.kind}
    for operation in scope.operations:
        if scope_of(operation) != scope.path:
            continue
        attributes = operation.node_def.attr
        last = "data_format" not in attributes or operation.get_attr("data_format").decode().endswith("C")
        places = slice(1, -1) if last else slice(2, None)
        if operation.type in ("Conv2D", "DepthwiseConv2dNative", "MaxPool", "AvgPool"):
            found["strides"] = list(operation.get_attr("strides"))[places]
            found["padding"] = operation.get_attr("padding").decode().lower()
            found["data_format"] = "channels_last" if last else "channels_first"
        if operation.type == "Conv2D":
            shape = operation.inputs[1].shape.as_list()
            found["kernel_size"], found["filters"] = shape[:2], shape[-1]
            found["dilation_rate"] = (
                list(operation.get_attr("dilations"))[places] if "dilations" in attributes else [1, 1]
            )
        if operation.type in ("MaxPool", "AvgPool"):
            found["pool_size"] = list(operation.get_attr("ksize"))[places]
        if operation.type.startswith("FusedBatchNorm"):
            found["epsilon"] = float(str(np.float32(operation.get_attr("epsilon"))))
    return found
