"""Values that are only moved, and shuffles of channels, written so that rows are moved.

Rounding moved values before or after gives the same, and before, 8 bits are moved instead of 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jumar.base.findings import Json
from jumar.operators import has
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.task import contiguous_stride
from jumar.tune.plan.lowering.lowering import base_of

_COPIES = frozenset({"contiguous", "clone"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Index `i·num + j` of a dimension goes to `j·num_groups + i`, with `num` indices a group."""

    source: Reference
    axis: int
    num_groups: int
    shape: tuple[int, ...]

    def steps(self) -> Iterator[tuple[str, list[Json], tuple[int, ...], tuple[int, ...]]]:
        """Yield operator, arguments behind the tensor, shape and strides of all but the last step, a reshape."""
        before, whole, behind = self.shape[: self.axis], self.shape[self.axis], self.shape[self.axis + 1 :]
        divided = (*before, self.num_groups, whole // self.num_groups, 1, math.prod(behind))
        stride = contiguous_stride(divided)
        yield "aten::reshape", [[*divided]], divided, stride
        first, second = self.axis, self.axis + 1
        yield "aten::transpose.int", [first, second], _exchanged(divided, first), _exchanged(stride, first)


def _exchanged(sizes: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*sizes[:place], sizes[place + 1], sizes[place], *sizes[place + 2 :])


def shuffle_of(graph: Graph, value: Reference) -> Shuffle | None:
    """Return the shuffle whose last operator makes `value`; None when it is none."""
    node = graph.producer(value)
    if node is None:
        return None
    if base_of(node) in {"channel_shuffle", "native_channel_shuffle"}:
        return _named(graph, node)
    merged = graph.spec_of(value)
    if not _reshapes(node) or merged is None:
        return None
    turned = _past_copies(graph, next(node.references()))
    turning = graph.producer(turned)
    if turning is None or base_of(turning) not in {"transpose", "permute"}:
        return None
    divided = next(turning.references())
    dividing = graph.producer(divided)
    if dividing is None or not _reshapes(dividing):
        return None
    source = next(dividing.references())
    return _chain(graph, source, divided, turning, merged.shape)


def _chain(
    graph: Graph, source: Reference, divided: Reference, turning: Node, merged: tuple[int, ...]
) -> Shuffle | None:
    """Return the shuffle of a dimension that is divided in two, which change places and are merged."""
    old, new = graph.spec_of(source), graph.spec_of(divided)
    if old is None or new is None or old.shape != merged or len(new.shape) != len(old.shape) + 1:
        return None
    for axis in range(len(old.shape)):
        groups, num = new.shape[axis : axis + 2]
        same = new.shape[:axis] == old.shape[:axis] and new.shape[axis + 2 :] == old.shape[axis + 1 :]
        if same and groups * num == old.shape[axis] and _exchanges(turning, axis, len(new.shape)):
            return Shuffle(source=source, axis=axis, num_groups=groups, shape=merged)
    return None


def _exchanges(turning: Node, axis: int, rank: int) -> bool:
    """Tell whether a node exchanges `axis` and the next dimension, and nothing else."""
    order = list(range(rank))
    order[axis : axis + 2] = [axis + 1, axis]
    if base_of(turning) == "permute":
        given = turning.arguments[1]
        return isinstance(given, list) and [int(str(place)) % rank for place in given] == order
    return sorted(int(str(place)) % rank for place in turning.arguments[1:3]) == [axis, axis + 1]


def _named(graph: Graph, node: Node) -> Shuffle | None:
    source = next(node.references())
    spec, groups = graph.spec_of(source), node.arguments[1] if len(node.arguments) > 1 else None
    if spec is None or not isinstance(groups, int) or spec.shape[1] % groups:
        return None
    return Shuffle(source=source, axis=1, num_groups=groups, shape=spec.shape)


def _reshapes(node: Node) -> bool:
    """Tell whether a node gives the same elements another shape; one dimension more or less divides nothing."""
    return has(base_of(node), "reshape") and base_of(node) not in {"squeeze", "unsqueeze"}


def _past_copies(graph: Graph, value: Reference) -> Reference:
    node = graph.producer(value)
    while node is not None and base_of(node) in _COPIES:
        value = next(node.references())
        node = graph.producer(value)
    return value


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
