"""Values that are only moved: rounding them before or after gives the same, and before, 8 bits are moved instead of 32.

A *mover* hands on what it reads, element by element: views, permutations, concatenations, splits, maximum pools. What
movers connect is a *group*; its *sources* are the members that no mover makes. Rounding all sources to the steps of
one range rounds the whole group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jumar.operators import has
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.plan.lowering.kinds import base_of

# NOTE: not `index_select` and its like: OpenVINO 2026.4 gathers 8-bit values wrongly (measured).


class Groups:
    """The groups of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._above: dict[Reference, Reference] = {}
        members: dict[Reference, list[Reference]] = {}
        for number, node in enumerate(graph.nodes):
            value = len(graph.inputs) + number
            if self._moves(value, node):
                for read in self.moved_by(node):
                    self._join(value, read)
        for value in sorted({*self._above, *self._above.values()}):
            members.setdefault(self._root(value), []).append(value)
        self._sources = {root: self._made_outside(values) for root, values in members.items()}

    def sources(self, value: Reference) -> Sequence[Reference]:
        """Return the sources of the group that `value` is in, ascending; itself where it is in none."""
        return self._sources.get(self._root(value), (value,))

    def is_moved(self, value: Reference) -> bool:
        """Tell whether a mover makes `value`."""
        node = self._graph.producer(value)
        return node is not None and self._moves(value, node)

    def _made_outside(self, values: Sequence[Reference]) -> tuple[Reference, ...]:
        return tuple(value for value in values if not self.is_moved(value))

    def _moves(self, value: Reference, node: Node) -> bool:
        """Tell whether a node moves float32 values."""
        if node.operator == GETITEM:
            whole = next(node.references())
            maker = self._graph.producer(whole)
            return maker is not None and self._moves(whole, maker)
        if not has(base_of(node), "hands_on") or value in self._graph.effects:
            return False
        made = self._graph.spec_of(value)
        moved = next(self.moved_by(node), None)  # the first input of a graph is the value 0
        return (made is None or made.dtype == "float32") and moved is not None

    def moved_by(self, node: Node) -> Iterator[Reference]:
        """Yield what a mover moves: the float32 values that it reads, not its indices."""
        for read in node.references():
            spec = self._graph.spec_of(read)
            if spec is None or spec.dtype == "float32":
                yield read

    def _join(self, left: Reference, right: Reference) -> None:
        first, second = sorted((self._root(left), self._root(right)))
        if first != second:
            self._above[second] = first

    def _root(self, value: Reference) -> Reference:
        while value in self._above:
            value = self._above[value]
        return value


def sources_of(groups: Groups | None, value: Reference) -> Sequence[Reference]:
    """Return what is rounded for `value`: the sources of its group; without groups, itself."""
    return (value,) if groups is None else groups.sources(value)
