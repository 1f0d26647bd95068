"""From graphs to tasks: the operators of a model, for job 2, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jumar.tune.graph.graph import GETITEM
from jumar.tune.search.subgraph.cuts import work_of
from jumar.tune.search.tasks.extract import Extraction, LeftOut, TaskUse, classify, name_tasks

if TYPE_CHECKING:
    from jumar.tune.graph.capture.captured import Captured


def extract_graphs(graphs: Sequence[Captured]) -> Extraction:
    """Return the tasks of all nodes of the graphs, those with the most work first; a weight stays a weight."""
    from jumar.tune.graph.operators import task_of_node

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
