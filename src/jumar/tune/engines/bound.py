"""A graph as a function of its variable inputs: the weights are bound once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from jumar.tune.engines.base import GraphFunction
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import to_fx
from jumar.tune.graph.graph import Reference


def bound(graph: Graph, constants: Mapping[Reference, torch.Tensor]) -> GraphFunction:
    """Return the graph as PyTorch runs it, one operator after the other."""
    run: Callable[..., tuple[Any, ...]] = with_weights(to_fx(graph), graph, constants).forward
    return run


def with_weights(module: fx.GraphModule, graph: Graph, constants: Mapping[Reference, torch.Tensor]) -> fx.GraphModule:
    """Return `module` (of `to_fx`) with the weights as buffers in the place of their placeholders."""
    placeholders = module.graph.find_nodes(op="placeholder")
    for place in graph.constants:
        name = f"weight_{place}"
        module.register_buffer(name, constants[place].detach())
        with module.graph.inserting_before(placeholders[place]):
            attribute = module.graph.get_attr(name)
        attribute.meta = dict(placeholders[place].meta)
        placeholders[place].replace_all_uses_with(attribute)
        module.graph.erase_node(placeholders[place])
    module.recompile()
    return module
