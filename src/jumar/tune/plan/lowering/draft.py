"""A graph that is being written: nodes in any order that computes, numbered anew at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import post_order
from jumar.tune.model.task import TensorSpec

Origin = TypeVar("Origin")


class Draft(Generic[Origin]):
    """Inputs (each with where it comes from) and nodes, by handles. What no output needs is left out."""

    def __init__(self) -> None:
        self._inputs: dict[int, tuple[TensorSpec, Origin, bool]] = {}
        self._nodes: dict[int, tuple[Node, TensorSpec | None]] = {}

    def input(self, spec: TensorSpec, origin: Origin, *, keep: bool = False) -> int:
        """Add an input and return its handle; `keep`: it stays even where nothing reads it."""
        handle = self._next()
        self._inputs[handle] = (spec, origin, keep)
        return handle

    def node(self, node: Node, spec: TensorSpec | None) -> int:
        """Add a node, whose references are handles, and return its handle."""
        handle = self._next()
        self._nodes[handle] = (node, spec)
        return handle

    def finish(self, outputs: Sequence[int | None], effects: Sequence[int]) -> tuple[Graph, list[Origin]]:
        """Return the graph, its nodes in canonical order, and the origins of its inputs."""
        # What is written is computed first: the first of two writes must not change what the second one reads.
        sources = [handle for effect in effects for handle in self._read_by(effect)[1:]]
        order = post_order(_present([*outputs, *sources, *effects]), self._inputs, self._read_by)
        read = {handle for place in order for handle in self._nodes[place][0].references()} | set(_present(outputs))
        taken = [handle for handle, (_, _, keep) in self._inputs.items() if keep or handle in read]
        numbers: dict[int, Reference] = {handle: number for number, handle in enumerate([*taken, *order])}
        graph = Graph(
            inputs=[self._inputs[handle][0] for handle in taken],
            nodes=[self._nodes[handle][0].renumbered(numbers.__getitem__) for handle in order],
            outputs=[None if handle is None else numbers[handle] for handle in outputs],
            effects=[numbers[handle] for handle in effects],
            values=[self._nodes[handle][1] for handle in order],
        )
        return graph, [self._inputs[handle][1] for handle in taken]

    def _read_by(self, handle: int) -> list[int]:
        return list(dict.fromkeys(self._nodes[handle][0].references()))

    def _next(self) -> int:
        return len(self._inputs) + len(self._nodes)


def _present(handles: Sequence[int | None]) -> list[int]:
    return [handle for handle in handles if handle is not None]
