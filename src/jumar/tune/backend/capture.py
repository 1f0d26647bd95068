"""From the module that TorchDynamo hands over to a graph for inference: weights constant, in the form of the bank.

The level is that of `torch.export` without decompositions, because engines convert `conv2d`, `layer_norm` and
`scaled_dot_product_attention` better than what they decompose into, and because models that are tuned offline come
from there: the same model must have the same key by both ways.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from jumar.tune.backend.compilation import outside
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.capture.capture import constant_arguments, exported, read_program
from jumar.tune.graph.operators import node_draws
from jumar.tune.model.errors import TuneError

__all__ = ["DEVICES", "NotTunable", "Taken", "constant_arguments", "take"]

DEVICES = ("cpu", "cuda")
"""Whose plans can be measured."""


class NotTunable(TuneError):
    """The graph is one that is not tuned; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A graph, its tensors, and from which arguments its inputs come."""

    graph: Graph
    tensors: Mapping[Reference, torch.Tensor]
    """The graph's inputs in the call it was captured from, by place."""
    arguments: Mapping[Reference, int]
    """For each variable input, which argument of the module it is."""
    weights: Sequence[int]
    """Which arguments of the module are weights: the graph holds for the values they had."""

    @property
    def constants(self) -> dict[Reference, torch.Tensor]:
        """The graph's weights by place."""
        return {place: self.tensors[place] for place in self.graph.constants}

    @property
    def example(self) -> list[torch.Tensor]:
        """The variable inputs of the call it was captured from, in order."""
        return [self.tensors[place] for place in self.graph.variables]


def take(module: fx.GraphModule, arguments: Sequence[Any], weights: set[int], *, may_draw: bool = False) -> Taken:
    """Return the graph of a module from TorchDynamo with these arguments, which stay as they are.

    `weights` says which of them never change (`constant_arguments`). Raises NotTunable or TuneError for what is not
    tuned: dynamic shapes, autocast, results that share memory with an input or with each other, in-place changes of
    inputs, control flow, and random operators unless `may_draw`.
    """
    _refuse(module, arguments)
    with _quiet(), outside():
        program = exported(module, tuple(arguments), {})
        made = read_program(program, tuple(arguments), {}, weights)
    if not may_draw:
        _refuse_random(made.operators)
    if any(value is not None and value < len(made.graph.inputs) for value in made.graph.outputs):
        raise NotTunable("it returns one of its inputs as it is")
    places = {place: number for number, place in enumerate(made.places) if place is not None}
    return Taken(
        graph=made.graph,
        tensors=made.tensors,
        arguments={place: places[place] for place in made.graph.variables},
        weights=sorted(weights - made.written_arguments),
    )


def _refuse_random(nodes: Sequence[fx.Node]) -> None:
    """Raise NotTunable when an operator draws random numbers."""
    drawing = [str(node.target) for node in nodes if node_draws(node)]
    if drawing:
        raise NotTunable(f"it draws random numbers ({', '.join(sorted(set(drawing)))})")


def _refuse(module: fx.GraphModule, arguments: Sequence[Any]) -> None:
    for value in arguments:
        if type(value) is int:  # a size, of a graph for several
            continue
        if not isinstance(value, torch.Tensor) or any(type(size) is not int for size in value.shape):
            raise NotTunable(
                "a size varies from call to call, and plans are for fixed sizes; compile with dynamic=False"
            )
        if type(value) not in {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}:
            raise NotTunable(f"an input is a {type(value).__name__}, a tensor of a kind of its own")
        if value.layout is not torch.strided:
            raise NotTunable(f"an input has the layout {value.layout}")
        if value.device.type not in DEVICES:
            raise NotTunable(f"it runs on {value.device.type}, for which plans are not measured")
    if torch._C._is_any_autocast_enabled():
        raise NotTunable("autocast is on")
    _refuse_aliases(module)


def _refuse_aliases(module: fx.GraphModule) -> None:
    """Refuse results that share memory with an input or with each other: an engine makes new tensors."""
    given = {_storage(node) for node in module.graph.find_nodes(op="placeholder")}
    storages = [storage for node in module.graph.output_node().all_input_nodes if (storage := _storage(node))]
    if given & set(storages):
        raise NotTunable("a result shares memory with an input")
    if len(set(storages)) < len(storages):
        raise NotTunable("results share memory with each other")


def _storage(node: fx.Node) -> int | None:
    value = node.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let `torch.export` warn of nothing: the user did not call it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
