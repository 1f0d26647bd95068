"""Operators by their schema: from a recorded call to a task, and from a task or a graph to a function."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from jumar.base.findings import Json
from jumar.recording import CallRow
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import overload
from jumar.tune.graph.work import Work
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Function, Task, TensorSpec


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
    what it returns, a graph the tuple of its outputs. Raises TuneError for an operator that this PyTorch has not.
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
