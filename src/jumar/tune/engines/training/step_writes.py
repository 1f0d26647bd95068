"""Modules that another layout would change: those that read strides, and those that write where views look.

`reshape` shares memory in one layout and copies in another, and so do `flatten` and `contiguous`. A write is then seen
through a view or not, whichever of the two it goes to. What is written before any view of it is made is free of that.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from jumar.operators import has


def name_of(node: fx.Node) -> str:
    """Return what a node calls, without where it is found: `conv2d`, `relu_`."""
    if node.op == "call_method":
        return str(node.target)
    if node.op != "call_function":
        return ""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name.partition("::")[2].removeprefix("_unsafe_")
    return getattr(node.target, "__name__", "")


def value_of(node: Any) -> torch.Tensor | None:
    """Return the tensor that a node makes, None for anything else."""
    if not isinstance(node, fx.Node):
        return None
    value = node.meta.get("val", node.meta.get("example_value"))
    return value if isinstance(value, torch.Tensor) else None


"""What shares memory with its input in one layout and copies in another; `view` is written as `reshape`."""
_STRIDED = frozenset({"as_strided", "stride", "is_contiguous", "storage_offset", "data_ptr", "untyped_storage"})
_ASSIGNMENTS = frozenset(
    {
        operator.iadd,
        operator.iand,
        operator.ifloordiv,
        operator.ilshift,
        operator.imod,
        operator.imul,
        operator.ior,
        operator.ipow,
        operator.irshift,
        operator.isub,
        operator.itruediv,
        operator.ixor,
        operator.setitem,
    }
)


def why_layout_stays(graph: fx.Graph) -> str:
    """Return why another layout of its tensors would change a module, as a sentence; empty where it does not."""
    groups = _Groups()
    for node in graph.nodes:
        name = name_of(node)
        if name in _STRIDED:
            return f"the model reads strides ({name}), so that its layout is left as it is."
        written = list(_written_by(node))
        if any(groups.is_dependent(one) for one in written):
            return f"{name} writes to what a view shares, and another layout would make that view a copy."
        groups.add(node, written)
    return ""


class _Groups:
    """Which values may share memory, and for which of them that depends on the layout."""

    def __init__(self) -> None:
        self._parents: dict[fx.Node, fx.Node] = {}
        self._dependent: set[fx.Node] = set()
        self._owners: dict[int, fx.Node] = {}

    def is_dependent(self, node: fx.Node) -> bool:
        """Tell whether it depends on the layout which values see a write to this one."""
        return self._first(node) in self._dependent

    def add(self, node: fx.Node, written: list[fx.Node]) -> None:
        """Take a node in; `written` are the values that it writes to, one of which it may return."""
        may_copy = name_of(node) in {"view", "view_as"} or has(name_of(node), "may_copy")
        sharing = [self._owner(node), *(node.all_input_nodes[:1] if may_copy else written[:1])]
        firsts = {self._first(one) for one in sharing if one is not None}
        is_dependent = may_copy or any(one in self._dependent for one in firsts)
        self._parents |= dict.fromkeys(firsts, node)
        if is_dependent:
            self._dependent.add(node)

    def _owner(self, node: fx.Node) -> fx.Node | None:
        """Return the node that first had the memory of this node's value."""
        value = value_of(node)
        if value is None or value.layout is not torch.strided:
            return None
        owner = self._owners.setdefault(value.untyped_storage()._cdata, node)
        return None if owner is node else owner

    def _first(self, node: fx.Node) -> fx.Node:
        while node in self._parents:
            node = self._parents[node]
        return node


def _written_by(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the values that a node changes in place."""
    if isinstance(node.target, torch._ops.OpOverload):
        found = _written_by_schema(node)
    elif _is_in_place(node):
        found = [node.args[0] if node.args else node.kwargs.get("input")]
    else:
        found = []
    for value in (*found, node.kwargs.get("out")):
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, fx.Node):
                yield one


def _written_by_schema(node: fx.Node) -> list[Any]:
    target: Any = node.target
    return [
        node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        for place, argument in enumerate(target._schema.arguments)
        if argument.is_write
    ]


def _is_in_place(node: fx.Node) -> bool:
    name = name_of(node)
    if node.target in _ASSIGNMENTS or name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
        return True
    return node.op == "call_function" and bool(_inplace_argument(node))


def _inplace_argument(node: fx.Node) -> Any:
    """Return what a function such as `functional.relu` is told by its argument `inplace`."""
    if "inplace" in node.kwargs or len(node.args) <= 1:
        return node.kwargs.get("inplace")
    target: Any = node.target
    try:
        return inspect.signature(target).bind(*node.args, **node.kwargs).arguments.get("inplace")
    except (TypeError, ValueError):  # built in, so that it has no such argument
        return None
