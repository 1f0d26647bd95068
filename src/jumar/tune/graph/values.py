"""What the values of a graph look like, found by running it on tensors without memory."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jumar.tune.graph.fx import to_fx
from jumar.tune.graph.graph import Graph
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec


def with_values(graph: Graph) -> Graph:
    """Return `graph` with the spec of every node's value. Raises TuneError when an operator refuses its inputs."""
    module = annotated(graph)
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    return replace(graph, values=[spec_of(node.meta["val"]) for node in nodes])


def annotated(graph: Graph) -> fx.GraphModule:
    """Return `graph` as a module of which every node has the (fake) tensor it makes in `meta["val"]`.

    Raises TuneError when an operator refuses its inputs.
    """
    module = to_fx(graph)
    with fake_tensors():
        inputs = [
            torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype)) for spec in graph.inputs
        ]
        try:
            _Annotate(module).run(*inputs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise TuneError(f"the graph does not fit its inputs: {str(error).splitlines()[0]}.") from error
    return module


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Make tensors that have no memory. What an operator refuses is raised, and not written to PyTorch's log as well.

    Sizes are never symbolic: an operator whose output's shape depends on values raises.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        with FakeTensorMode(), torch.no_grad():
            yield
    finally:
        log.disabled = before


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
