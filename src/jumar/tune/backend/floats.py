"""Python's floats in a graph for sizes that vary, such as the momentum and epsilon of batch normalisation.

With `dynamic=True` TorchDynamo takes them for what may vary, too, and hands them over as tensors that the graph reads
with `item`. No fixed plan has such a value, and compiling the graph again breaks it at each of them. They are written
into the graph as they are; calls with others run by the graph as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from jumar.tune.backend.compilation import Compilation, Compiled


def with_floats_fixed(
    compilation: Compilation, compiled: Callable[[Compilation], Compiled], general: Callable[[Compilation], Compiled]
) -> Compiled:
    """Return what `compiled` makes of the graph with its floats written into it.

    `general` makes what computes calls with other floats, when the first one comes.
    """
    places = _floats(compilation.module)
    if not places:
        return compiled(compilation)
    values = [compilation.arguments[place].item() for place in places]
    fixed = compiled(replace(compilation, module=_fixed(compilation.module, dict(zip(places, values, strict=True)))))
    others: list[Compiled] = []

    def call(*given: Any) -> Any:
        if [given[place].item() for place in places] == values:
            return fixed(*given)
        if not others:
            others.append(general(compilation))
        return others[0](*given)

    return call


def _floats(module: fx.GraphModule) -> Sequence[int]:
    """Return which arguments are Python's floats in tensors."""
    return [
        number
        for number, node in enumerate(module.graph.find_nodes(op="placeholder"))
        if node.users and getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False) and _is_read(node)
    ]


def _is_read(node: fx.Node) -> bool:
    return all(user.op == "call_method" and user.target == "item" for user in node.users)


def _fixed(module: fx.GraphModule, values: dict[int, Any]) -> fx.GraphModule:
    made = fx.GraphModule(module, copy.deepcopy(module.graph))
    for number, node in enumerate(made.graph.find_nodes(op="placeholder")):
        if number not in values:
            continue
        for read in list(node.users):
            for user in list(read.users):
                _write(user, read, values[number])
            made.graph.erase_node(read)
    made.recompile()
    return made


def _write(user: fx.Node, read: fx.Node, value: Any) -> None:
    """Let `user` take `value` in the place of what `read` gives."""

    def chosen(one: fx.Node) -> Any:
        return value if one is read else one

    user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), chosen)
