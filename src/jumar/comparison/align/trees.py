"""Builds the trees of modules of two runs: the rows show what each module is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jumar.comparison.model.calls import plain_path
from jumar.comparison.model.frameworks.foreign import STATELESS, Foreign
from jumar.comparison.model.frameworks.layers import plain_class
from jumar.comparison.model.kinds import QUERIES, TRANSPORT
from jumar.operators import canonical_name
from jumar.recording.schema import CallRow, TensorRow

MOST_PARAMETERS = 8
"""Parameters of a module whose values are looked at."""

SAME_VALUE = 2e-3
"""Relative difference up to which a figure of a parameter is taken for the same; it drifts in training."""

Figures = tuple[tuple[int, ...], float, float, float]
"""Shape, minimum, maximum and L2 norm of a parameter."""


@dataclass(eq=False)
class Node:
    """One module. `path` is its own, wrappers left out."""

    path: str
    name: str
    """The name by which it is looked for; the last component of the path unless renames say otherwise."""
    type: str = ""
    children: dict[str, Node] = field(default_factory=dict)
    own: list[tuple[object, ...]] = field(default_factory=list)
    """Operators and shapes of its own calls in the forward pass."""
    parameters: list[Figures] = field(default_factory=list)
    is_layer: bool = False
    """Of two frameworks' modules: one calculation, whatever it holds inside."""
    is_passing: bool = False
    """Of two frameworks' modules: without parameters, so that a function may stand for it on the other side."""

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """What it calculates, with shapes and without the names of modules."""
        inside = () if self.is_layer else self.children.values()
        return tuple(self.own), tuple(child.signature for child in inside if not child.is_passing)

    @cached_property
    def operators(self) -> Counter[object]:
        """The operators in it and below."""
        found: Counter[object] = Counter(token[0] for token in self.own)
        for child in self.children.values():
            found.update(child.operators)
        return found

    @cached_property
    def size(self) -> int:
        """Number of modules in it, itself included."""
        return 1 + sum(child.size for child in self.children.values())

    @cached_property
    def values(self) -> list[Figures]:
        """Figures of the parameters in it and below, those that tell nothing (all ones) left out."""
        found = [figures for figures in self.parameters if figures[1] != figures[2]]
        for child in self.children.values():
            found += child.values
        return found[:MOST_PARAMETERS]

    def likeness(self, other: Node) -> float:
        """Return from 0 to 1 how much of their operators two modules share."""
        common = sum((self.operators & other.operators).values())
        whole = max(self.operators.total(), other.operators.total())
        return common / whole if whole else float(self.type == other.type)

    def same_values(self, other: Node) -> float:
        """Return the share of parameters that the other has, too, by their figures; 0 where there is none to compare.

        Data that a module reads from outside look like one of its parameters, and the other module has no such
        parameter.
        """
        left = list(other.values)
        num_common = 0
        for figures in self.values:
            at = next((k for k, others in enumerate(left) if _same(figures, others)), None)
            if at is not None:
                num_common += 1
                del left[at]
        fewest = min(len(self.values), len(other.values))
        return num_common / fewest if fewest else 0.0


def _same(first: Figures, second: Figures) -> bool:
    allowed = SAME_VALUE * max(abs(first[1]), abs(first[2]))
    return (
        first[0] == second[0]
        and abs(first[1] - second[1]) <= allowed
        and abs(first[2] - second[2]) <= allowed
        and abs(first[3] - second[3]) <= SAME_VALUE * first[3]
    )


def tree_of(rows: Sequence[CallRow]) -> Node:
    """Return the root of the modules that have a row; children in the order in which they finish first."""
    root = Node("", "")
    nodes: dict[str, Node] = {"": root}
    leaves = _Leaves()
    for row in rows:
        node = nodes.get(row.module_path) or _node(nodes, row.module_path)
        if row.module_type:
            node.type = node.type or row.module_type
        if row.kind == "op" and row.phase == "forward":
            operator = canonical_name(row.name)
            if operator not in TRANSPORT and operator not in QUERIES:
                node.own.append((operator, row.outputs[0].shape if row.outputs else ()))
            node.parameters.extend(leaves.read(row, in_module=bool(node.path)))
    return root


def layer_tree(rows: Sequence[CallRow], frameworks: Foreign, side: int) -> Node:
    """Return the root of the modules of a side (0 reference, 1 target) of two frameworks' runs.

    What a module calculates is told by its class in PyTorch's words and the shape of its result: operators are others.
    """
    root = Node("", "")
    nodes: dict[str, Node] = {"": root}
    for row in rows:
        node = nodes.get(row.module_path) or _node(nodes, row.module_path)
        node.type = node.type or row.module_type
        if row.kind != "module" or row.phase != "forward" or node.own or not row.outputs:
            continue
        kind = frameworks.layer_of(row, side)
        if kind:
            node.own.append((plain_class(kind), row.outputs[0].shape))
            node.is_layer, node.is_passing = True, kind in STATELESS
    return root


def _node(nodes: dict[str, Node], path: str) -> Node:
    """Return the node of a path as it was recorded, made with those above where it is the first of them."""
    plain = plain_path(path)
    node = nodes[""]
    for part in plain.split(".") if plain else ():
        child = node.children.get(part)
        if child is None:
            child = node.children[part] = Node(f"{node.path}.{part}" if node.path else part, part)
        node = child
    nodes[path] = node
    return node


class _Leaves:
    """Finds the tensors that no operator of the step has written before they are read."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def read(self, row: CallRow, *, in_module: bool) -> Iterable[Figures]:
        found = [figures(tensor) for tensor in row.inputs if tensor.storage not in self._seen and _has_values(tensor)]
        self._seen.update(tensor.storage for tensor in (*row.inputs, *row.outputs))
        return found if in_module else ()


def _has_values(tensor: TensorRow) -> bool:
    return tensor.storage > 0 and tensor.l2 is not None and tensor.dtype.startswith(("float", "bfloat"))


def figures(tensor: TensorRow) -> Figures:
    """Return what is compared of a parameter."""
    return tensor.shape, tensor.minimum or 0.0, tensor.maximum or 0.0, tensor.l2 or 0.0
