"""An operator call as a graph of one node, and a node as an operator call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jumar.base.findings import Json
from jumar.tune.graph.fx import overload, to_fx
from jumar.tune.graph.graph import GETITEM, Graph, Node, Reference
from jumar.tune.graph.signature import task_from
from jumar.tune.graph.values import spec_of, with_values
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Task, TensorSpec

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
