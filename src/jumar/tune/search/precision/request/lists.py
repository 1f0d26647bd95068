"""Which operators may lose precision, by type and by name: the vendor's two files, and what they mean for a graph.

`op_precision_mode` (ini):

    [ByOpType]
    Conv2D=high_performance
    [ByNodeName]
    conv2d_0=high_precision

A name wins over a type; lines before the first section are types. What no line names stays as it is.

`modify_mixlist` (JSON): changes to built-in lists. White operators are lowered, black ones never, and all others
(gray) as the operator is that they read from:

    {"black-list": {"to-remove": [], "to-add": ["SoftmaxV2"]}, "white-list": {"to-remove": ["Conv2D"], "to-add": []}}

The built-in lists are `jumar.tune.plan.lowering.lowering`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.plan.lowering.lowering import Kind, Lowering, LowPrecision, base_of, kind_of
from jumar.tune.plan.lowering.rewrite import effective
from jumar.tune.search.tasks.extract import vendor_types

Mode = Literal[
    "high_precision", "high_performance", "super_performance", "enable_float_32_execution",
    "enable_hi_float_32_execution", "support_out_of_bound_index", "keep_fp16",
]  # fmt: skip
MODES: tuple[Mode, ...] = get_args(Mode)
LOW: frozenset[Mode] = frozenset({"high_performance", "super_performance", "keep_fp16"})
"""Modes that let an operator lose precision; a CPU has no HF32, and an index is no precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeList:
    """What an `op_precision_mode` file says."""

    by_type: Mapping[str, Mode] = field(default_factory=dict)
    by_name: Mapping[str, Mode] = field(default_factory=dict)

    def nodes(self, graph: Graph, precision: LowPrecision) -> dict[Reference, LowPrecision]:
        """Return which nodes of `graph` are lowered when `precision` stands for the faster modes."""
        found: dict[Reference, LowPrecision] = {}
        for value, name in node_names(graph).items():
            mode = self._mode(graph.nodes[value - len(graph.inputs)], name)
            if mode in LOW:
                found[value] = "fp16" if mode == "keep_fp16" else precision
        return found

    def _mode(self, node: Node, name: str) -> Mode | None:
        if name in self.by_name:
            return self.by_name[name]
        return next((self.by_type[kind] for kind in sorted(types_of(node)) if kind in self.by_type), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes to one of the built-in lists, in types."""

    to_remove: tuple[str, ...] = ()
    to_add: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MixList:
    """What a `modify_mixlist` file says."""

    black: Changes = field(default_factory=Changes)
    white: Changes = field(default_factory=Changes)

    def kind(self, node: Node) -> Kind:
        """Return the list an operator is on after the changes. What is added counts before what is removed."""
        types, built_in = types_of(node), kind_of(node)
        for kind, changes in (("black", self.black), ("white", self.white)):
            if types & set(changes.to_add):
                return "black" if kind == "black" else "white"
        removed = {"black": self.black.to_remove, "white": self.white.to_remove, "gray": ()}[built_in]
        return "gray" if types & set(removed) else built_in

    def nodes(self, graph: Graph, precision: LowPrecision) -> dict[Reference, LowPrecision]:
        """Return which nodes of `graph` are lowered to `precision`."""
        return dict.fromkeys(sorted(_followed(graph, self.kind)), precision)


def _followed(graph: Graph, kind: Callable[[Node], Kind]) -> set[Reference]:
    """Return the white nodes, and the gray ones that read from a node that is lowered."""
    low: set[Reference] = set()
    for number, node in enumerate(graph.nodes):
        on = "gray" if node.operator == GETITEM else kind(node)
        if on == "white" or (on == "gray" and low & set(node.references())):
            low.add(len(graph.inputs) + number)
    return low


def mode_list_of(graph: Graph, lowering: Lowering) -> ModeList:
    """Return the lowering as an `op_precision_mode` list, every operator of the graph named by its type.

    A type whose operators differ is `high_precision`, and the lowered ones are named.
    """
    low = effective(graph, lowering)
    by_type: dict[str, Mode] = {}
    by_name: dict[str, Mode] = {}
    for kind, members in _by_type(graph).items():
        chosen = {value: name for value, name in members.items() if value in low}
        by_type[kind] = "high_performance" if len(chosen) == len(members) else "high_precision"
        if by_type[kind] == "high_precision":
            by_name |= dict.fromkeys(chosen.values(), "high_performance")
    return ModeList(by_type=by_type, by_name=by_name)


def mix_list_of(graph: Graph, lowering: Lowering) -> MixList:
    """Return the lowering as changes to the built-in lists: as near as types can say it.

    White: types whose operators are all lowered; black: types of which none is; a built-in white or black type with
    some of each is moved to gray.
    """
    low = effective(graph, lowering)
    is_cast = any(precision != "int8" for precision in low.values())  # int8 has no gray operators
    added: dict[str, list[str]] = {"white": [], "black": []}
    removed: dict[str, list[str]] = {"white": [], "black": []}
    for kind, members in _by_type(graph).items():
        num_low = sum(value in low for value in members)
        built_in = kind_of(graph.nodes[next(iter(members)) - len(graph.inputs)])
        wanted = "white" if num_low == len(members) else "gray" if num_low else "black"
        if wanted == built_in or (built_in == "gray" and not is_cast):
            continue
        if wanted in added:
            added[wanted].append(kind)
        else:
            removed[built_in].append(kind)
    lists = {name: Changes(to_remove=tuple(sorted(removed[name])), to_add=tuple(sorted(added[name]))) for name in added}
    return MixList(black=lists["black"], white=lists["white"])


def _by_type(graph: Graph) -> dict[str, dict[Reference, str]]:
    """Return the operators by the type that is written for them, with their names."""
    found: dict[str, dict[Reference, str]] = {}
    for value, name in node_names(graph).items():
        found.setdefault(written_type(graph.nodes[value - len(graph.inputs)]), {})[value] = name
    return found


def node_names(graph: Graph) -> dict[Reference, str]:
    """Return the operators' names by the values they make: `conv2d_0`, `conv2d_1`, … in the graph's order."""
    seen: Counter[str] = Counter()
    names: dict[Reference, str] = {}
    for number, node in enumerate(graph.nodes):
        if node.operator == GETITEM:
            continue
        base = base_of(node)
        names[len(graph.inputs) + number] = f"{base}_{seen[base]}"
        seen[base] += 1
    return names


def written_type(node: Node) -> str:
    """Return the type that is written for an operator: the vendor's (`Conv2D`), else PyTorch's (`view`)."""
    return min((kind for kind in vendor_types(node.operator) if kind), default=base_of(node))


def types_of(node: Node) -> frozenset[str]:
    """Return every type by which a file may mean an operator."""
    return vendor_types(node.operator) | {node.operator, node.operator.partition(".")[0], base_of(node)}
