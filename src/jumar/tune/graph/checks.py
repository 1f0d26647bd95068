"""A look at what a captured graph computes: is it a function, and is there anything to compare?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from jumar.findings import Finding
from jumar.tune.graph.graph import Graph
from jumar.tune.graph.random_numbers import node_draws
from jumar.tune.rules import nan_output, not_deterministic, random_operator
from jumar.tune.signature import function_of
from jumar.tune.task import Function

SAME = 1e-4
"""Greatest difference, relative to the greatest value, at which two runs count as the same."""


def check(
    name: str, graph: Graph, tensors: Mapping[int, torch.Tensor], operators: Sequence[fx.Node],
    expected: Sequence[Any] | None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Run the graph twice on its own inputs. `expected` are the model's outputs and what it wrote, None: not known.

    Raises what PyTorch raises when an operator cannot run.
    """
    drawing = sorted({str(node.target) for node in operators if node_draws(node)})
    if drawing:
        return (random_operator.finding(name, drawing),)
    function = function_of(graph, {place: tensors[place] for place in graph.constants})
    first, second = (_computed(function, graph, tensors) for _ in range(2))
    difference = greatest_difference(first, second)
    if difference > SAME:
        return (not_deterministic.finding(name, difference, "two runs of it"),)
    if expected is not None and (difference := greatest_difference(first, expected)) > SAME:
        return (not_deterministic.finding(name, difference, "the model and its captured graph"),)
    return tuple(nan_output.findings(name, first[: len(graph.outputs)]))


def _computed(function: Function, graph: Graph, tensors: Mapping[int, torch.Tensor]) -> list[torch.Tensor | None]:
    """Return the outputs and what the effects wrote, in memory of their own."""
    inputs = {place: tensors[place].clone() for place in graph.variables}
    with torch.no_grad():
        outputs = function(*inputs.values())
    written = [next(graph.nodes[value - len(graph.inputs)].references()) for value in graph.effects]
    return [None if one is None else one.clone() for one in [*outputs, *(inputs[place] for place in written)]]


def greatest_difference(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the greatest difference of outputs relative to their greatest value; infinite for other shapes."""
    if len(left) != len(right):
        return float("inf")
    return max((_difference(*pair) for pair in zip(left, right, strict=True)), default=0.0)


def _difference(left: Any, right: Any) -> float:
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return 0.0  # numbers and Nones are fixed in a graph
    left, right = left.detach(), right.detach()  # a model may return a parameter
    if left.shape != right.shape or left.dtype != right.dtype:
        return float("inf")
    if left.is_complex():
        left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
    if not left.is_floating_point():
        return float(not torch.equal(left, right))
    finite = torch.isfinite(left)
    if not torch.equal(finite, torch.isfinite(right)):
        return float("inf")
    left, right = left[finite].double(), right[finite].double()
    if not left.numel():
        return 0.0
    return float((left - right).abs().max() / left.abs().max().clamp_min(1e-30))
