"""Nodes of a module of `torch.fx`, as TorchDynamo hands it over or of aten operators: what they call and make."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


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
