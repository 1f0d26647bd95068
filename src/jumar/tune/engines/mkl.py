"""Linear layers whose weights MKL has packed: on many x86 processors faster than oneDNN's blocks.

MKL's packed weights cannot be written to a file or copied to another address, so a compiled library cannot hold them:
it holds the plain weights and calls an operator of ours, which packs a weight at the first call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from jumar.tune.engines.packable import is_packable, operands
from jumar.tune.errors import TuneError

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
