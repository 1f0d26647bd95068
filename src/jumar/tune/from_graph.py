"""From graphs to tasks: the operators of a model, for job 2, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jumar.findings import Json
from jumar.tune.errors import TuneError
from jumar.tune.extract import Extraction, LeftOut, TaskUse, classify, name_tasks
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.subgraph.cuts import work_of
from jumar.tune.task import Task, TensorSpec

if TYPE_CHECKING:
    from jumar.tune.graph.captured import Captured

_NAMED = ("dtype", "device", "layout", "memory_format")
"""What an argument that is no JSON of itself may be; a task has the bare name."""


def extract_graphs(graphs: Sequence[Captured]) -> Extraction:
    """Return the tasks of all nodes of the graphs, those with the most work first; a weight stays a weight."""
    uses: dict[str, TaskUse] = {}
    left_out: LeftOut = {}
    work: dict[str, float] = {}
    num_calls = 0
    for captured in graphs:
        graph = captured.graph
        for value, node in enumerate(graph.nodes, len(graph.inputs)):
            if node.operator == GETITEM:
                continue
            num_calls += 1
            group = classify(node.operator, lambda graph=graph, node=node: task_of_node(graph, node), uses, left_out)  # type: ignore[misc]
            group.num_calls += 1
            if isinstance(group, TaskUse):
                group.module_paths = group.module_paths or [captured.name]
                group.phases = ["forward"]
                work[group.task.key] = work.get(group.task.key, 0.0) + work_of(graph, value)
    tasks = sorted(uses.values(), key=lambda use: (-work[use.task.key], use.task.key))
    name_tasks(tasks)
    return Extraction(
        tasks=tasks, not_tuned=sorted(left_out.values(), key=lambda one: -one.num_calls), num_calls=num_calls
    )


def task_of_node(graph: Graph, node: Node) -> Task:
    """Return the operator call of a node as a task. Raises TuneError for one that takes a list of tensors."""
    from jumar.tune.signature import task_from

    return task_from(node.operator, {name: _argument(graph, node, value) for name, value in _named(node).items()})


def named_values(node: Node) -> dict[str, Reference]:
    """Return the values of a graph that a node reads, by the names of the operator's schema; lists are left out."""
    named = _named(node).items()
    return {name: int(str(value["value"])) for name, value in named if isinstance(value, dict) and "value" in value}


def _named(node: Node) -> dict[str, Json]:
    from jumar.tune.overloads import overload

    names = [argument.name for argument in overload(node.operator)._schema.arguments]
    return dict(zip(names, node.arguments, strict=False)) | dict(node.keywords)


def _argument(graph: Graph, node: Node, value: Json) -> Any:
    if isinstance(value, list):
        if any(isinstance(item, dict) and "value" in item for item in value):
            raise TuneError(f"{node.operator} takes a list of tensors, which is not rebuilt so far.")
        return [_argument(graph, node, item) for item in value]
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
