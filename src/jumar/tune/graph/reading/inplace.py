"""In-place operators written as ordinary ones, where that is plainly the same.

`relu_` on a tensor of which nobody reads the old values afterwards is `relu`. Anything less plain is left for
PyTorch's functionalisation, which is general and slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx


def has_in_place(module: fx.GraphModule) -> bool:
    """Tell whether an operator of the graph writes to one of its arguments."""
    return any(map(_is_in_place, module.graph.nodes))


def without_plain_in_place(module: fx.GraphModule) -> None:
    """Replace in-place operators after which nothing reads the memory they write to, but through their result.

    Where the result would have another dtype (`x -= y` with a `y` of more bits, `x.gt_(0)`), they stay.
    Which values share memory is read from the (fake) tensors in `meta["val"]`.
    """
    positions = {node: place for place, node in enumerate(module.graph.nodes)}
    sharing: dict[int, list[fx.Node]] = {}
    for node in positions:
        for storage in _storages(node):
            sharing.setdefault(storage, []).append(node)
    for node in positions:
        if not _is_in_place(node):
            continue
        ordinary = _ordinary(node.target)
        if ordinary is not None and _is_last_word(node, sharing, positions) and _keeps_dtype(node, ordinary):
            node.target = ordinary
    module.recompile()


def _is_in_place(node: fx.Node) -> bool:
    target = node.target
    return node.op == "call_function" and isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _is_last_word(node: fx.Node, sharing: dict[int, list[fx.Node]], positions: dict[fx.Node, int]) -> bool:
    written = node.args[0] if node.args else None
    if not isinstance(written, fx.Node) or not (storages := list(_storages(written))):
        return False
    here = positions[node]
    for storage in storages:
        for other in sharing[storage]:
            if other.op != "call_function":
                return False
            if positions[other] < here and any(positions[user] > here for user in other.users):
                return False
    return True


def _keeps_dtype(node: fx.Node, ordinary: torch._ops.OpOverload) -> bool:
    """Tell whether the ordinary operator gives the dtype that what is written to has, and in place keeps."""
    if any("val" not in one.meta for one in node.all_input_nodes):
        return False
    arguments, keywords = fx.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    return bool(ordinary(*arguments, **keywords).dtype == node.meta["val"].dtype)


def _storages(node: fx.Node) -> Iterator[int]:
    """Yield what identifies the memory that a node's result is in."""
    value: Any = node.meta.get("val")
    for one in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(one, torch.Tensor) and one.layout is torch.strided and not _is_wrapped(one):
            yield one.untyped_storage()._cdata


def _is_wrapped(value: torch.Tensor) -> bool:
    """Tell whether a tensor is one of `torch.func`'s, such as a row inside of `vmap`, which has no memory."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(value))


def _ordinary(target: Any) -> torch._ops.OpOverload | None:
    """Return the operator that computes what an in-place one writes; None when there is none of the same arguments."""
    namespace, _, name = target._schema.name.partition("::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(getattr(torch.ops, namespace), name[:-1], None)
    found = getattr(packet, target._overloadname, None) if packet is not None else None
    if not isinstance(found, torch._ops.OpOverload):
        return None
    own, other = ([one.name for one in op._schema.arguments] for op in (target, found))
    return found if own == other and len(found._schema.returns) == 1 else None
