"""Linear layers whose weights MKL has packed: on many x86 processors faster than oneDNN's blocks.

MKL's packed weights cannot be written to a file or copied to another address, so a compiled library cannot hold them:
it holds the plain weights and calls the operator `jumar_tune::packed_linear`, which packs a weight at the first call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jumar.tune.model.errors import TuneError

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


_LIBRARY = torch.library.Library("jumar_tune", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("packed_linear(Tensor x, Tensor weight) -> Tensor")  # type: ignore[no-untyped-call]


def pack(weight: torch.Tensor, num_rows: int) -> torch.Tensor:
    """Return `weight` (outputs × inputs, float32) packed for products with `num_rows` rows.

    Raises TuneError where PyTorch was built without MKL.
    """
    if not torch._C.has_mkl:
        raise TuneError("this PyTorch has no MKL, which would have packed the weights.")
    packed: torch.Tensor = torch.ops.mkl._mkl_reorder_linear_weight(weight, num_rows)
    return packed


def call_mkl(module: fx.GraphModule) -> int:
    """Let the linear layers with constant float32 weights call MKL; return how many there are.

    `module` is one of `jumar.tune.graph.values.annotated` with its weights bound. The bias stays an addition of its
    own, for a compiler to put together with what follows.
    """
    nodes = [node for node in module.graph.nodes if node.target is torch.ops.aten.linear.default and is_packable(node)]
    for node in nodes:
        x, weight, bias = operands(node)
        with module.graph.inserting_before(node):
            made = module.graph.call_function(torch.ops.jumar_tune.packed_linear.default, (x, weight))
            if bias is not None:
                made = module.graph.call_function(torch.ops.aten.add.Tensor, (made, bias))
        made.meta = node.meta
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
    module.recompile()
    return len(nodes)


def _packed_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    num_rows = x.shape[:-1].numel()
    known: Any = getattr(weight, "_jumar_packed", None)
    if known is None or known[0] != num_rows:
        # Kept with the weight, which lives as long as the library that holds it.
        known = weight._jumar_packed = num_rows, pack(weight, num_rows)  # type: ignore[attr-defined]
    product: torch.Tensor = torch.ops.mkl._mkl_linear(x, known[1], weight, None, num_rows)
    return product


def _like_packed_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


_LIBRARY.impl("packed_linear", _packed_linear, "CPU")  # type: ignore[no-untyped-call]
_LIBRARY.impl("packed_linear", _like_packed_linear, "Meta")  # type: ignore[no-untyped-call]
