"""What the values of a graph look like, found by running it on tensors without memory."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jumar.tune.errors import TuneError
from jumar.tune.graph.fx import to_fx
from jumar.tune.graph.graph import Graph
from jumar.tune.task import TensorSpec


def with_values(graph: Graph) -> Graph:
    """Return `graph` with the spec of every node's value. Raises TuneError when an operator refuses its inputs."""
    module = annotated(graph)
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    return replace(graph, values=[spec_of(node.meta["val"]) for node in nodes])


def annotated(graph: Graph) -> fx.GraphModule:
    """Return `graph` as a module of which every node has the (fake) tensor it makes in `meta["val"]`.

    Raises TuneError when an operator refuses its inputs.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = to_fx(graph)
    # Without symbolic sizes: an operator whose output's shape depends on values raises here.
    with FakeTensorMode(), torch.no_grad():
        inputs = [
            torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype)) for spec in graph.inputs
        ]
        try:
            _Annotate(module).run(*inputs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise TuneError(f"the graph does not fit its inputs: {str(error).splitlines()[0]}.") from error
    return module


def spec_of(value: Any) -> TensorSpec | None:
    """Return the spec of a tensor; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    return TensorSpec(
        shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."), stride=tuple(value.stride())
    )


class _Annotate(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            n.meta["val"] = list(value) if n.target is not operator.getitem and isinstance(value, tuple) else value
        return value
