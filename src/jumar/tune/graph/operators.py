"""An operator call as a graph of one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jumar.findings import Json
from jumar.tune.errors import TuneError
from jumar.tune.graph.graph import GETITEM, Graph, Node
from jumar.tune.graph.values import spec_of, with_values
from jumar.tune.overloads import overload
from jumar.tune.task import Task

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
