"""Which operators draw random numbers: dropout in training, `rand_like`, `bernoulli`."""

from __future__ import annotations

import torch
from torch import fx

from jumar.tune.graph.fx import to_fx
from jumar.tune.graph.graph import Graph

_SWITCHES = ("train", "training", "is_training")
_SHARES = ("dropout_p", "dropout", "p")


def draws(graph: Graph) -> bool:
    """Tell whether what a graph computes depends on the state of a random number generator."""
    return any(node_draws(node) for node in to_fx(graph).graph.nodes)


def node_draws(node: fx.Node) -> bool:
    """Tell whether an operator's result depends on the state of a random number generator."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    names = [argument.name for argument in target._schema.arguments]
    defaults = {one.name: one.default_value for one in target._schema.arguments if one.has_default_value()}
    given = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    if any(given.get(switch) is False for switch in _SWITCHES):
        return False
    shares = [given[share] for share in _SHARES if share in given]
    return not shares or any(share != 0 for share in shares)
