"""Whose memory the values of an fx graph are in."""

from __future__ import annotations

import operator

import torch
from torch import fx


def origin(node: fx.Node) -> fx.Node:
    """Return what a value is a view of, or may be; itself when it is none."""
    while (source := _seen_by(node)) is not None:
        node = source
    return node


def _seen_by(node: fx.Node) -> fx.Node | None:
    source = node.args[0] if node.op == "call_function" and node.args else None
    if not isinstance(source, fx.Node):
        return None
    if node.target is operator.getitem:  # of a view's several results, such as a split's
        return source if _seen_by(source) is not None else None
    target = node.target
    is_view = isinstance(target, torch._ops.OpOverload) and any(
        one.alias_info is not None and not one.alias_info.is_write for one in target._schema.returns
    )
    return source if is_view and not is_told_to_copy(node) else None


def is_told_to_copy(node: fx.Node) -> bool:
    """Tell whether an operator is called with `copy=True`."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    names = (one.name for one in node.target._schema.arguments)
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return given.get("copy") is True
