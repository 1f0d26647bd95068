"""From the module that TorchDynamo hands over to a graph for inference: weights constant, inputs in one order.

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

from jumar.tune.backend.order import in_order_of_use
from jumar.tune.errors import TuneError
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.fx import from_fx


class NotTunable(TuneError):
    """The graph is one that is not tuned; the message says why, without an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A graph, its weights, and from which arguments its inputs come."""

    graph: Graph
    weights: Mapping[Reference, torch.Tensor]
    """The graph's constants, by their place among its inputs."""
    arguments: Mapping[Reference, int]
    """For each input that is an argument of the module (all but tensors that it holds itself): which."""

    def example(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Return the variable inputs of one call of the module."""
        return [arguments[self.arguments[place]] for place in self.graph.variables]

    def values(self, arguments: Sequence[Any]) -> dict[int, torch.Tensor]:
        """Return every input of one call of the module, by its place."""
        variables = dict(zip(self.graph.variables, self.example(arguments), strict=True))
        return {**self.weights, **variables}


def take(module: fx.GraphModule, arguments: Sequence[Any]) -> Taken:
    """Return the graph of a module from TorchDynamo with these arguments, which stay as they are.

    Raises NotTunable for what is not tuned: dynamic shapes, autocast, results that share memory with an input or with
    each other, in-place changes of inputs, random operators, control flow.
    """
    _refuse(module, arguments)
    weights = constant_arguments(module, arguments)
    program = _exported(module, arguments)
    _refuse_writes(program)
    graph, held = from_fx(program.graph_module, _places(program, weights))
    random = sorted({node.operator for node in graph.nodes if is_random(node.operator)})
    if random:
        raise NotTunable(f"it draws random numbers ({', '.join(random)})")
    if any(value is not None and value < len(graph.inputs) for value in graph.outputs):
        raise NotTunable("it returns one of its inputs as it is")
    ordered, kept = in_order_of_use(graph)
    sources = _sources(program, held)
    return Taken(
        graph=ordered,
        weights={new: _value(sources[old], arguments) for new, old in enumerate(kept) if ordered.inputs[new].constant},
        arguments={new: source for new, old in enumerate(kept) if isinstance(source := sources[old], int)},
    )


def constant_arguments(module: fx.GraphModule, arguments: Sequence[Any]) -> frozenset[int]:
    """Return which arguments are parameters or buffers of the user's modules."""
    found = []
    for number, (node, value) in enumerate(zip(module.graph.find_nodes(op="placeholder"), arguments, strict=True)):
        source = getattr(node.meta.get("grapharg"), "source", None)
        guard = getattr(source, "guard_source", None)
        if isinstance(value, torch.nn.Parameter) or (guard is not None and guard.is_unspecialized_nn_module()):
            found.append(number)
    return frozenset(found)


def is_random(operator: str) -> bool:
    """Tell whether an operator draws random numbers, by the tag that PyTorch gives it."""
    from jumar.tune.overloads import overload

    if operator.startswith("prims::inductor_"):
        return True
    try:
        tags = overload(operator).tags
    except (AttributeError, RuntimeError, TuneError):  # `getitem`
        return False
    return torch.Tag.nondeterministic_seeded in tags


def _refuse(module: fx.GraphModule, arguments: Sequence[Any]) -> None:
    for value in arguments:
        if not isinstance(value, torch.Tensor):
            raise NotTunable(f"an input is {type(value).__name__}: a size varies, and plans are for fixed sizes")
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise NotTunable(f"an input is a {type(value).__name__}, a tensor of a kind of its own")
        if value.layout is not torch.strided:
            raise NotTunable(f"an input has the layout {value.layout}")
    if torch._C._is_any_autocast_enabled():
        raise NotTunable("autocast is on")
    if any(type(size) is not int for node in module.graph.find_nodes(op="placeholder") for size in _sizes(node)):
        raise NotTunable("a size varies from call to call, and plans are for fixed sizes; compile with dynamic=False")
    _refuse_aliases(module)


def _sizes(node: fx.Node) -> Iterator[Any]:
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        yield from (*value.shape, *value.stride())


def _refuse_aliases(module: fx.GraphModule) -> None:
    """Refuse results that share memory with an input or with each other: an engine makes new tensors."""
    given = {_storage(node) for node in module.graph.find_nodes(op="placeholder")}
    outputs = [node for node in module.graph.output_node().all_input_nodes if _storage(node) is not None]
    storages = [_storage(node) for node in outputs]
    if given & set(storages):
        raise NotTunable("a result shares memory with an input")
    if len(set(storages)) < len(storages):
        raise NotTunable("results share memory with each other")


def _storage(node: fx.Node) -> int | None:
    value = node.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _exported(module: fx.GraphModule, arguments: Sequence[Any]) -> torch.export.ExportedProgram:
    with _undisturbed():
        program = torch.export.export(module, tuple(arguments), strict=False)
        functional: torch.export.ExportedProgram = program.run_decompositions({})
    return functional


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let `torch.export` run inside of TorchDynamo's compilation: it brings its own context, and warns of nothing."""
    with warnings.catch_warnings(), torch._guards.tracing(None), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


def _refuse_writes(program: torch.export.ExportedProgram) -> None:
    kinds = {spec.kind.name for spec in program.graph_signature.output_specs}
    if kinds - {"USER_OUTPUT"}:
        raise NotTunable("it changes an input or a buffer in place")


def _places(program: torch.export.ExportedProgram, weights: frozenset[int]) -> list[int]:
    """Return the placeholders of the program whose values never change."""
    places, number = [], 0
    for place, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind.name != "USER_INPUT":
            places.append(place)
            continue
        if number in weights:
            places.append(place)
        number += 1
    return places


def _sources(
    program: torch.export.ExportedProgram, held: Mapping[int, torch.Tensor]
) -> dict[Reference, int | torch.Tensor]:
    """Return for each input of the graph the argument it is, or the tensor that the module holds."""
    known: dict[str | None, Any] = {**program.state_dict, **program.constants}
    sources: dict[Reference, int | torch.Tensor] = {}
    number = 0
    for place, spec in enumerate(program.graph_signature.input_specs):
        if spec.kind.name == "USER_INPUT":
            sources[place] = number
            number += 1
        else:
            sources[place] = known[spec.target]
    return {**sources, **held}


def _value(source: int | torch.Tensor, arguments: Sequence[Any]) -> torch.Tensor:
    value = arguments[source] if isinstance(source, int) else source
    assert isinstance(value, torch.Tensor)
    return value.detach() if value.requires_grad else value
