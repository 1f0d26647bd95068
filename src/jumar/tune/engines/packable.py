"""Which operators have weights that can be packed, and what their operands are."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv2d.default, aten.conv3d.default)


def is_packable(node: fx.Node) -> bool:
    """Tell whether a node is a convolution or linear layer in float32 with constant weights."""
    if node.target not in (*CONVOLUTIONS, aten.linear.default):
        return False
    x, weight, bias = operands(node)
    constant = weight.op == "get_attr" and (bias is None or bias.op == "get_attr")
    fine = constant and x.meta["val"].dtype is torch.float32 and x.meta["val"].numel() > 0
    return fine and not isinstance(option(node, 4, "padding", 0), str) and x.meta["val"].dim() >= 2


def operands(node: fx.Node) -> tuple[Any, Any, Any]:
    """Return the nodes of input, weight and bias (or None) of a convolution or linear layer."""
    return node.args[0], option(node, 1, "weight", None), option(node, 2, "bias", None)


def option(node: fx.Node, place: int, name: str, default: Any) -> Any:
    """Return an argument of a node by its place, or its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)
