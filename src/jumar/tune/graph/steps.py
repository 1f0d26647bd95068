"""A training step as a graph: forward and backward of a module, as one function that can be compared and timed.

A step is the graph of the forward with `Graph.gradients`, the inputs whose gradients are asked for. Its last inputs
are the gradients of its floating-point outputs, in order; no node reads them. Its outputs are those of the forward,
then the gradients. How the backward is computed is the engine's choice, as it is PyTorch's for a module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from jumar.tune.graph.graph import Graph, Reference
from jumar.tune.model.task import Function


def as_step(graph: Graph, wanted: Sequence[Reference]) -> Graph:
    """Return the training step of a forward: the gradients of the inputs `wanted` are outputs too."""
    specs = [graph.spec_of(value) for value in _followed(graph)]
    given = [replace(spec, constant=False) for spec in specs if spec is not None]
    first = len(graph.inputs)

    def number(value: Reference) -> Reference:
        return value if value < first else value + len(given)

    return replace(
        graph,
        inputs=[*graph.inputs, *given],
        nodes=[node.renumbered(number) for node in graph.nodes],
        outputs=[None if value is None else number(value) for value in graph.outputs],
        effects=[number(value) for value in graph.effects],
        gradients=list(wanted),
    )


def stepped(graph: Graph, forward: Callable[..., Sequence[Any]]) -> Function:
    """Return the function of a step whose forward, of all the graph's inputs, is `forward`; PyTorch differentiates it.

    A gradient has the strides of its input, as those have that an optimizer reads.
    """
    first = len(graph.inputs) - len(_followed(graph))
    wanted = list(graph.gradients)

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        given = list(tensors)
        for place in wanted:
            given[place] = tensors[place].detach().requires_grad_()
        with torch.enable_grad():
            outputs = list(forward(*given))
        floating = [output for output in outputs if output is not None and output.is_floating_point()]
        pairs = [pair for pair in zip(floating, tensors[first:], strict=True) if pair[0].requires_grad]
        inputs = [given[place] for place in wanted]
        found = torch.autograd.grad(
            [output for output, _ in pairs], inputs, [gradient for _, gradient in pairs], allow_unused=True
        )
        gradients = [_accumulated(gradient, tensor) for gradient, tensor in zip(found, inputs, strict=True)]
        return (*(None if output is None else output.detach() for output in outputs), *gradients)

    return call


def _followed(graph: Graph) -> list[Reference]:
    """Return the outputs that have a gradient: those of floating-point numbers."""
    specs = [(value, graph.spec_of(value)) for value in graph.outputs if value is not None]
    return [value for value, spec in specs if spec is not None and getattr(torch, spec.dtype).is_floating_point]


def _accumulated(gradient: torch.Tensor | None, tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a gradient as autograd leaves it in `tensor.grad`."""
    if gradient is None or gradient.stride() == tensor.stride():
        return gradient
    return torch.empty_like(tensor, requires_grad=False).copy_(gradient)
