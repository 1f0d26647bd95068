"""Training: the forward and backward graphs that AOTAutograd hands to TorchInductor, looked up one by one.

A graph that the bank has a plan for is computed by it; every other goes to `compile_fx_inner` unchanged. Weights are
variable inputs here: they change with every step. What a graph only passes on (weights that the backward needs) is
no part of what is tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

import torch
from torch import fx

from jumar.tune.backend.capture import DEVICES, NotTunable, refuse_random
from jumar.tune.backend.order import in_order_of_use
from jumar.tune.engines import GraphFunction
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import from_fx

Inner = Callable[..., Any]
"""`compile_fx_inner`: a graph, example inputs and keywords in; a function of a list of tensors out."""
Phase = Literal["forward", "backward", "inference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A graph at TorchInductor's level, and how it stands among the inputs and outputs that AOTAutograd knows."""

    graph: Graph
    arguments: Sequence[int]
    """For each input of the graph, which of AOTAutograd's inputs it is."""
    results: Sequence[tuple[Literal["argument", "output"], int] | None]
    """For each of AOTAutograd's outputs, the input it passes on, the graph's output it is, or None for none."""
    input_names: Sequence[str]
    """Names of AOTAutograd's inputs."""
    output_names: Sequence[str]
    """Names of AOTAutograd's outputs; a backward's inputs have the names of the forward's outputs."""

    def variables(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the graph's inputs of one call."""
        return [inputs[number] for number in self.arguments]

    def made_names(self) -> list[str]:
        """Return the names of the graph's own outputs."""
        places = {result[1]: place for place, result in enumerate(self.results) if result and result[0] == "output"}
        return [self.output_names[places[number]] for number in range(len(self.graph.outputs))]


def lower(module: fx.GraphModule) -> Lowered:
    """Return the graph of a module at TorchInductor's level. Raises TuneError, which says why it is not tuned."""
    graph, held = from_fx(module)
    if held:
        raise NotTunable("it holds tensors of its own")
    refuse_random(list(module.graph.nodes))
    _refuse_devices(module)
    num_inputs = len(graph.inputs)
    made = list(dict.fromkeys(value for value in graph.outputs if value is not None and value >= num_inputs))
    if not made and not graph.effects:
        raise NotTunable("it computes nothing")
    ordered, kept = in_order_of_use(replace(graph, outputs=made))
    return Lowered(
        graph=ordered,
        arguments=kept,
        results=[_result(value, num_inputs, made) for value in graph.outputs],
        input_names=[node.name for node in module.graph.find_nodes(op="placeholder")],
        output_names=[node.name if isinstance(node, fx.Node) else "" for node in _outputs(module)],
    )


def _refuse_devices(module: fx.GraphModule) -> None:
    values = [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]
    others = {value.device.type for value in values if isinstance(value, torch.Tensor)} - set(DEVICES)
    if others:
        raise NotTunable(f"it runs on {others.pop()}, for which plans are not measured")


def _outputs(module: fx.GraphModule) -> list[Any]:
    (outputs,) = module.graph.output_node().args
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _result(
    value: int | None, num_inputs: int, made: Sequence[int]
) -> tuple[Literal["argument", "output"], int] | None:
    if value is None:
        return None
    return ("argument", value) if value < num_inputs else ("output", made.index(value))


def phase_of(settings: dict[str, Any]) -> Phase:
    """Return the phase of a graph from the keywords that `compile_fx_inner` is given."""
    if settings.get("is_backward"):
        return "backward"
    return "inference" if settings.get("is_inference") else "forward"


class Replaced:
    """A plan in the place of what TorchInductor would have compiled."""

    def __init__(self, function: GraphFunction, lowered: Lowered) -> None:
        self._boxed_call = True  # of the instance: torch.compiler.disable copies its dictionary only
        self._function = function
        numbers = list(lowered.arguments)
        self._pick = itemgetter(*numbers) if len(numbers) > 1 else lambda inputs: [inputs[n] for n in numbers]
        self._results = lowered.results
        self._passes_on = any(result is not None and result[0] == "argument" for result in lowered.results)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Compute the outputs. The list is emptied, as AOTAutograd wants it, so that memory can be freed."""
        chosen = self._pick(inputs)
        given = tuple(inputs) if self._passes_on else ()
        inputs.clear()
        made = self._function(*chosen)
        return [
            None if result is None else given[result[1]] if result[0] == "argument" else made[result[1]]
            for result in self._results
        ]
