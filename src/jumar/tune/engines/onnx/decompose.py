"""Operators that are not in the table, written by those that are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jumar.tune.engines.onnx.draft import Value


def decomposed(target: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> fx.GraphModule | None:
    """Return the operator as a module of simpler ones, of its tensor arguments in the order in which they appear.

    `arguments` hold `Value`s where tensors go. None when PyTorch has no decomposition of it.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    function = _rule_of(target)
    if function is None:
        return None
    leaves, structure = torch.utils._pytree.tree_flatten((list(arguments), keywords))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Value)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty(leaves[place].shape, dtype=leaves[place].dtype) for place in places]

    def call(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        given, named = torch.utils._pytree.tree_unflatten(filled, structure)
        return function(*given, **named)

    try:
        with torch.no_grad():
            module: fx.GraphModule = make_fx(call, tracing_mode="real")(*fakes)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):  # a rule for other arguments
        return None
    return None if any(node.target is target for node in module.graph.nodes) else module


def _rule_of(target: Any) -> Callable[..., Any] | None:
    from torch._decomp import core_aten_decompositions, decomposition_table

    rule = core_aten_decompositions().get(target) or decomposition_table.get(target)
    if rule is not None:
        return rule
    if isinstance(target, torch._ops.OpOverload) and target._can_decompose():
        return target.decompose
    return None
