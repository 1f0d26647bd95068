"""TorchInductor on graphs that AOTAutograd has already decomposed: forward and backward graphs of training."""

from __future__ import annotations

from typing import Any

import torch

from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.engines.bound import with_weights
from jumar.tune.graph.values import annotated


def compiled(site: Site) -> GraphFunction:
    """Compile the graph as it stands, or take it from Inductor's cache in the site's folder."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx_inner

    module = with_weights(annotated(site.graph), site.graph, site.constants)
    # All outputs are the caller's: without this Inductor may give those that it takes for saved ones other strides.
    module.graph.output_node().meta["user_visible_output_idxs"] = list(range(len(site.graph.outputs)))
    fakes = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    mode = fakes[0].fake_mode if fakes else None
    with tracing(TracingContext(mode)):
        run = compile_fx_inner(module, fakes)

    def call(*inputs: torch.Tensor) -> tuple[Any, ...]:
        return tuple(run(list(inputs)))  # it empties the list

    return call
