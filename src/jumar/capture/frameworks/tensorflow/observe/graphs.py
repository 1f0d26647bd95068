"""What a run of a graph of TensorFlow 1 calculates (`RunPlan`), and the gradients that it was given (`Gradients`)."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jumar.capture.frameworks.tensorflow.observe.layouts import DENSE, FLAT, Layouts

APPLIES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
READS = frozenset({"ReadVariableOp", "ResourceGather"})
NOT_ROWS = frozenset({
    "Const", "VariableV2", "Variable", "VarHandleOp", "ReadVariableOp", "Placeholder", "PlaceholderWithDefault", "NoOp",
    "Assign", "AssignVariableOp", "IteratorGetNext", "Shape", "VarIsInitializedOp", "IsVariableInitialized",
    "IteratorV2",
    "OneShotIterator", "ScalarSummary", "HistogramSummary", "MergeSummary", "Assert", "ShapeN",
    "RandomStandardNormalSeed",
})  # fmt: skip
"""Operators that bring values and calculate none."""


class Gradients:
    """Stands around the function that adds gradients to a graph, and asks it for those of intermediate tensors, too."""

    def __init__(self) -> None:
        self._of: Any = weakref.WeakKeyDictionary()

    def of(self, graph: Any) -> GraphGradients:
        """Return what is known of a graph."""
        found = self._of.get(graph)
        if found is None:
            found = self._of[graph] = GraphGradients()
        return found  # type: ignore[no-any-return]

    def helper(self, original: Callable[..., Any], ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
        """Add gradients of `ys` to the graph: those of `xs`, and for the observer those of tensors between scopes."""
        from tensorflow.python.framework import ops

        targets = list(ys) if isinstance(ys, (list, tuple)) else [ys]
        wanted = list(xs) if isinstance(xs, (list, tuple)) else [xs]
        graph = getattr(targets[0], "graph", None) if targets and hasattr(targets[0], "op") else None
        if graph is None or graph is not ops.get_default_graph() or hasattr(graph, "outer_graph"):
            return original(ys, xs, *args, **kwargs)
        known = self.of(graph)
        extra = _between(targets, wanted)
        before = len(graph.get_operations())
        result = list(original(targets, wanted + extra, *args, **kwargs))
        known.losses += [one for one in targets if one.dtype.is_floating]
        known.backward.update(one.name for one in graph.get_operations()[before:])
        known.of_tensors.update(
            {one.name: gradient for one, gradient in zip(extra, result[len(wanted) :]) if hasattr(gradient, "op")}
        )
        return result[: len(wanted)]


class GraphGradients:
    """The gradients of one graph."""

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.backward: set[str] = set()
        """Names of the operators that calculate gradients."""
        self.of_tensors: dict[str, Any] = {}


def _between(targets: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
    """Return the floating-point tensors before `targets` that one scope gives and another one takes."""
    found: dict[str, Any] = {}
    given = {getattr(one, "name", "") for one in wanted}
    for operation in before([one.op for one in targets]):
        for tensor in operation.inputs:
            producer = tensor.op
            crosses = scope_of(producer) != scope_of(operation)
            calculates = producer.type not in NOT_ROWS and not is_read(producer)
            if crosses and calculates and tensor.dtype.is_floating and is_plain(producer) and tensor.name not in given:
                found[tensor.name] = tensor
    return list(found.values())


def before(operations: Sequence[Any]) -> list[Any]:
    """Return operators and all that is behind them, in the order in which the graph got them."""
    seen: dict[str, Any] = {}
    waiting = list(operations)
    while waiting:
        one = waiting.pop()
        if one.name not in seen:
            seen[one.name] = one
            waiting += [tensor.op for tensor in one.inputs]
            waiting += list(one.control_inputs)
    return sorted(seen.values(), key=lambda one: one._id)


def scope_of(operation: Any) -> str:
    """Return the name scope of an operator, dotted: `block.conv` of `block/conv/Conv2D`."""
    return str(operation.name).rpartition("/")[0].replace("/", ".")


def is_plain(operation: Any) -> bool:
    """Tell whether an operator runs exactly once: in no branch and no loop."""
    return operation._get_control_flow_context() is None and operation.type not in ("Switch", "Merge", "Enter", "Exit")


def is_read(operation: Any) -> bool:
    """Tell whether an operator reads a variable."""
    if operation.type == "ReadVariableOp":
        return True
    return bool(
        operation.type == "Identity" and operation.inputs and operation.inputs[0].op.type in ("VariableV2", "Variable")
    )


def variable_behind(tensor: Any) -> str:
    """Return the name of the operator of the variable that a tensor was read from; empty where it was calculated."""
    operation = tensor.op
    for _ in range(6):
        if operation.type in ("VariableV2", "Variable", "VarHandleOp"):
            return str(operation.name)
        if operation.type not in ("ReadVariableOp", "Identity", "Cast") or not operation.inputs:
            return ""
        operation = operation.inputs[0].op
    return ""


class RunPlan:
    """What a run of some fetches calculates."""

    def __init__(self, graph: Any, targets: Sequence[Any], gradients: GraphGradients, layouts: Layouts) -> None:
        operations = before(targets)
        self.applies = [one for one in operations if one.type.startswith(APPLIES)]
        self.operations = [one for one in operations if is_plain(one)]
        self.num_unseen = len(operations) - len(self.operations)
        """Operators within branches and loops of TensorFlow 1."""
        self.backward = gradients.backward
        self.optimizer = _after(operations, gradients.backward)
        names = {one.name for one in operations}
        self.losses = [one for one in gradients.losses if one.op.name in names]
        self.variables = _variables(graph)
        self.of_variables: dict[str, str] = {}
        """Layouts of variables, by the name of their operator."""
        self._learn(layouts)
        self.gradients = {
            name: one
            for name, one in gradients.of_tensors.items()
            if name.partition(":")[0] in names and is_plain(one.op)
        }
        for name, gradient in self.gradients.items():
            layouts.tag(gradient, layouts.of(graph.get_tensor_by_name(name)))

    @property
    def trains(self) -> bool:
        """Whether the run updates parameters."""
        return bool(self.applies)

    def phase(self, operation: Any) -> str:
        """Return the phase of an operator."""
        if operation.name in self.backward:
            return "backward"
        return "optimizer" if operation.name in self.optimizer else "forward"

    def tensors(self, everything: bool) -> list[Any]:
        """Return the tensors to fetch beside the program's: all, or losses and optimizers' settings alone."""
        found: dict[str, Any] = {one.name: one for one in self.losses}
        for operation in self.applies:
            for tensor in operation.inputs:
                if tensor.shape.rank == 0 and _can_fetch(tensor):
                    found[tensor.name] = tensor
        if everything:
            for operation in self.operations:
                for tensor in (*operation.inputs, *operation.outputs):
                    if _can_fetch(tensor):
                        found[tensor.name] = tensor
            found.update({one.name: one for one in self.gradients.values() if _can_fetch(one)})
        return list(found.values())

    def _learn(self, layouts: Layouts) -> None:
        for operation in self.operations:
            attributes = {}
            if "data_format" in operation.node_def.attr:
                attributes["data_format"] = operation.get_attr("data_format")
            inputs, outputs = list(operation.inputs), list(operation.outputs)
            layouts.learn_operator(operation.type, attributes, inputs, outputs)
            if operation.type == "MatMul" and not operation.get_attr("transpose_b") and variable_behind(inputs[1]):
                flat = layouts.of(inputs[0])
                layouts.tag(inputs[1], DENSE + flat[len(FLAT) :] if flat.startswith(FLAT) else DENSE)
            for tensor in inputs:
                variable, layout = variable_behind(tensor), layouts.of(tensor)
                if variable and layout:
                    self.of_variables[variable] = layout


def _after(operations: Sequence[Any], backward: set[str]) -> set[str]:
    """Return the operators behind gradients that are no part of the backward pass: they update, clip or count."""
    found: set[str] = set()
    for one in operations:
        if one.name in backward:
            continue
        behind = [tensor.op.name for tensor in one.inputs] + [other.name for other in one.control_inputs]
        if one.type.startswith(APPLIES) or any(name in backward or name in found for name in behind):
            found.add(one.name)
    return found


def _variables(graph: Any) -> dict[str, Any]:
    """Return the variables of a graph by the name of their operator."""
    found = {}
    for variable in graph.get_collection("variables") + graph.get_collection("trainable_variables"):
        element = getattr(variable, "handle", None)
        element = element if element is not None and hasattr(element, "op") else getattr(variable, "_variable", None)
        if element is not None and hasattr(element, "op"):
            found[str(element.op.name)] = variable
    return found


def _can_fetch(tensor: Any) -> bool:
    dtype = tensor.dtype
    if getattr(dtype, "_is_ref_dtype", False) or not tensor.graph.is_fetchable(tensor) or not is_plain(tensor.op):
        return False
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex)


def operations_of(graph: Any, fetches: Any) -> list[Any]:
    """Return the operators of what a session is asked to fetch."""
    found: list[Any] = []
    for one in _flat(fetches):
        element = _element(graph, one)
        if element is not None:
            found.append(getattr(element, "op", element))
    return found


def _flat(fetches: Any) -> list[Any]:
    if isinstance(fetches, dict):
        return [item for value in fetches.values() for item in _flat(value)]
    if isinstance(fetches, (list, tuple)):
        return [item for value in fetches for item in _flat(value)]
    return [fetches]


def _element(graph: Any, one: Any) -> Any | None:
    for candidate in (one, getattr(one, "values", None)):
        try:
            return graph.as_graph_element(candidate, allow_tensor=True, allow_operation=True)
        except (TypeError, ValueError, KeyError):
            continue
    return None
