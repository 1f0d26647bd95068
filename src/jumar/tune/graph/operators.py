"""Operator calls by their schema: as tasks, as graphs of one node, and as functions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from jumar.base.findings import Json
from jumar.tune.graph.fx import overload, spec_of, to_fx, with_values
from jumar.tune.graph.graph import GETITEM, Graph, Node, Reference, Work
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Function, Task, TensorSpec

if TYPE_CHECKING:
    from jumar.recording import CallRow


def task_of(row: CallRow, constants: Collection[str] = ()) -> Task:
    """Return the task of a recorded call, defaults filled in; `constants` are the rows' tensors that are weights.

    Raises TuneError when an argument has no value that can be rebuilt (a list of tensors, a generator)
    or the tensor has no strides.
    """
    names = [argument.name for argument in overload(row.name)._schema.arguments]
    return task_from(row.name, _by_name(row, names, constants))


def task_from(operator: str, given: Mapping[str, Any]) -> Task:
    """Return the task of an operator whose arguments (`TensorSpec`s, and values as JSON) are given by name.

    Raises TuneError when one without a default is missing, or this PyTorch has no such operator.
    """
    tensors: dict[str, TensorSpec] = {}
    values: dict[str, Json] = {}
    for argument in overload(operator)._schema.arguments:
        if argument.name in given:
            value = given[argument.name]
        elif argument.has_default_value():
            value = argument.default_value
        elif "Tensor" in str(argument.type):
            value = None
        else:
            raise TuneError(f"{operator} was recorded without its argument {argument.name}; record it again.")
        if isinstance(value, TensorSpec):
            tensors[argument.name] = value
        else:
            values[argument.name] = _canonical(value, argument)
    return Task(operator=operator, tensors=tensors, arguments=values)


def function_of(work: Work, constants: Mapping[int, torch.Tensor] | None = None) -> Function:
    """Return an operator or a graph, run by PyTorch operator by operator, as a function of its variable inputs.

    `constants` are the weights by their place among all inputs; every weight must be there. An operator returns
    what it returns, a graph the tuple of its outputs. Raises TuneError for an operator that this PyTorch does not have.
    """
    call = _function_of_graph(work) if isinstance(work, Graph) else _function_of_task(work)
    return of_variables(call, list(work.tensors.values()), constants or {})


def of_variables(call: Function, specs: Sequence[TensorSpec], constants: Mapping[int, torch.Tensor]) -> Function:
    """Return a function of all inputs as one of its variable inputs: the others are `constants`, by place."""
    variables = [place for place, spec in enumerate(specs) if not spec.constant]
    if len(variables) == len(specs):
        return call
    bound: list[Any] = [constants.get(place) for place in range(len(specs))]

    def call_bound(*tensors: torch.Tensor) -> Any:
        inputs = bound.copy()
        for place, tensor in zip(variables, tensors, strict=True):
            inputs[place] = tensor
        return call(*inputs)

    return call_bound


def _function_of_graph(graph: Graph) -> Function:
    from jumar.tune.graph.fx import to_fx
    from jumar.tune.graph.steps import stepped

    if graph.gradients:
        return stepped(graph, to_fx(graph).forward)
    # Not the module itself: its hooks and `__call__` cost microseconds, and small graphs are measured too.
    return to_fx(graph).forward


def _function_of_task(task: Task) -> Function:
    operator = overload(task.operator)
    places = {name: place for place, name in enumerate(task.tensors)}
    positional: list[tuple[int, Any]] = []
    keywords: list[tuple[str, int, Any]] = []
    for argument in operator._schema.arguments:
        place = places.get(argument.name, -1)
        value = None if place >= 0 else _native(task.arguments.get(argument.name), argument)
        if argument.kwarg_only:
            keywords.append((argument.name, place, value))
        else:
            positional.append((place, value))

    def call(*tensors: torch.Tensor) -> Any:
        return operator(
            *[value if place < 0 else tensors[place] for place, value in positional],
            **{name: value if place < 0 else tensors[place] for name, place, value in keywords},
        )

    return call


def _by_name(row: CallRow, names: list[str], constants: Collection[str]) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(row.arguments) if row.arguments else {}
    for tensor in row.inputs:
        place = tensor.name.removeprefix("input.")
        if "." in place:
            raise TuneError(f"{row.name} takes a list of tensors, which is not rebuilt so far.")
        if not tensor.stride and tensor.shape:
            raise TuneError(f"{row.name} has a {tensor.format} tensor, which has no strides to rebuild.")
        spec = replace(TensorSpec.of(tensor), constant=tensor.name in constants)
        recorded[names[int(place)] if place.isdigit() else place] = spec
    return recorded


def _canonical(value: Any, argument: Any) -> Json:
    """Give one form to what a program may write in several: 3 for `int[2]` is [3, 3]."""
    if isinstance(value, (list, tuple)):
        return [_canonical(item, None) for item in value]
    if argument is not None and argument.N and isinstance(value, int) and not isinstance(value, bool):
        return [value] * int(argument.N)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value).removeprefix("torch.")


def _native(value: Json, argument: Any) -> Any:
    """Return what the operator takes: a dtype for its name."""
    if isinstance(value, str) and "ScalarType" in str(argument.real_type):
        return getattr(torch, value, value)
    return value


_KINDS = {"ScalarType": "dtype", "Device": "device", "Layout": "layout", "MemoryFormat": "memory_format"}


def graph_of(task: Task, made: Sequence[Any] | None = None) -> Graph:
    """Return the graph whose inputs are the task's tensors and whose outputs are the operator's.

    `made` are outputs of the operator, where it was run already; without them tensors without memory are sent
    through it, which takes a second the first time. Raises TuneError for an operator that returns something else
    than tensors, or does not take these inputs.
    """
    schema = overload(task.operator)._schema
    places = {name: place for place, name in enumerate(task.tensors)}
    arguments: list[Json] = []
    keywords: dict[str, Json] = {}
    for argument in schema.arguments:
        if argument.name in places:
            value: Json = {"value": places[argument.name]}
        else:
            value = _value(task.arguments.get(argument.name), argument)
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            arguments.append(value)
    call = Node(operator=task.operator, arguments=arguments, keywords=keywords)
    number = len(task.tensors)
    items, outputs = _items([str(value.type) for value in schema.returns], number, task.operator)
    graph = Graph(inputs=list(task.tensors.values()), nodes=[call, *items], outputs=outputs)
    if made is None:
        return with_values(graph)
    return replace(graph, values=[*([None] if items else []), *map(spec_of, made)])


def _items(types: list[str], number: int, operator: str) -> tuple[list[Node], list[int | None]]:
    """Return the nodes that take the operator's several results apart, and the numbers of the results."""
    if any(kind not in {"Tensor", "Optional[Tensor]"} for kind in types) or not types:
        raise TuneError(f"{operator} returns {', '.join(types) or 'nothing'}, and only tensors are tuned.")
    if len(types) == 1:
        return [], [number]
    items = [Node(operator=GETITEM, arguments=[{"value": number}, place]) for place in range(len(types))]
    return items, [number + 1 + place for place in range(len(types))]


def _value(value: Json, argument: Any) -> Json:
    """Return an argument as a graph has it: `{"dtype": "float32"}` for a dtype's name."""
    if isinstance(value, str):
        for kind, name in _KINDS.items():
            if kind in str(argument.real_type):
                return {name: value}
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        return {"float": str(value)}
    return value


_SWITCHES = ("train", "training", "is_training")
_SHARES = ("dropout_p", "dropout", "p")


def draws(graph: Graph) -> bool:
    """Tell whether what a graph computes depends on the state of a random number generator."""
    return any(node_draws(node) for node in to_fx(graph).graph.nodes)


def node_draws(node: fx.Node) -> bool:
    """Tell whether an operator's result depends on the state of a random number generator."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    names = [argument.name for argument in target._schema.arguments]
    defaults = {one.name: one.default_value for one in target._schema.arguments if one.has_default_value()}
    given = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    if any(given.get(switch) is False for switch in _SWITCHES):
        return False
    shares = [given[share] for share in _SHARES if share in given]
    return not shares or any(share != 0 for share in shares)


_NAMED = ("dtype", "device", "layout", "memory_format")


def task_of_node(graph: Graph, node: Node) -> Task:
    """Return the operator call of a node as a task. Raises TuneError for one that takes a list of tensors."""
    return task_from(node.operator, {name: _read_argument(graph, node, value) for name, value in _named(node).items()})


def named_values(node: Node) -> dict[str, Reference]:
    """Return the values of a graph that a node reads, by the names of the operator's schema; lists are left out."""
    named = _named(node).items()
    return {name: int(str(value["value"])) for name, value in named if isinstance(value, dict) and "value" in value}


def _named(node: Node) -> dict[str, Json]:
    names = [argument.name for argument in overload(node.operator)._schema.arguments]
    return dict(zip(names, node.arguments, strict=False)) | dict(node.keywords)


def _read_argument(graph: Graph, node: Node, value: Json) -> Any:
    if isinstance(value, list):
        if any(isinstance(item, dict) and "value" in item for item in value):
            raise TuneError(f"{node.operator} takes a list of tensors, which is not rebuilt so far.")
        return [_read_argument(graph, node, item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "value":
        spec = graph.spec_of(int(str(content)))
        if not isinstance(spec, TensorSpec):
            raise TuneError(f"{node.operator} takes what is no single tensor, which is not rebuilt so far.")
        return spec
    if kind == "float":
        return float(str(content))
    if kind in _NAMED:
        return content
    raise TuneError(f"{node.operator} has a complex number as an argument, which is not rebuilt so far.")
