"""A graph's function from what an engine computes: views, strides and effects as PyTorch has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.engines.shared.cut import Cut, contiguous_order, effect_of, is_contiguous
from jumar.tune.engines.shared.refusals import ranges
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.fx import to_fx

Inside = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]
"""Computes `Cut.inside`: contiguous variable inputs in, contiguous outputs out."""


def with_borders(site: Site, made: Cut, inside: Inside | None) -> GraphFunction:
    """Return the function of `site.graph`; `inside` None where the engine has nothing to compute."""
    computed = _fed(site, made, inside)
    if _is_plain(site.graph, made):
        return lambda *inputs: tuple(computed(inputs))
    finish = _Finish(site, made)
    return lambda *inputs: finish(inputs, computed(inputs))


def inside_constants(site: Site, made: Cut) -> dict[int, torch.Tensor]:
    """Return the weights by their place among the inputs of `made.inside`, contiguous."""
    specs = made.inside.inputs
    return {
        place: site.constants[source].detach().contiguous()
        for place, source in enumerate(made.sources)
        if specs[place].constant
    }


def _is_plain(graph: Graph, made: Cut) -> bool:
    """Tell whether the engine's outputs are the graph's."""
    return not made.tail and not graph.effects and list(graph.outputs) == list(made.roots)


def _fed(site: Site, made: Cut, inside: Inside | None) -> Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]:
    """Return what gives the roots, strides put right, for the whole graph's variable inputs."""
    if inside is None:
        return lambda _: ()
    variables = {place: number for number, place in enumerate(site.graph.variables)}
    taken = [
        (variables[source], order)
        for source, order in zip(made.sources, made.orders, strict=True)
        if source in variables
    ]
    specs = [spec for value in made.roots if (spec := site.graph.spec_of(value)) is not None]
    turned = [
        (place, spec.shape, spec.stride)
        for place, (spec, stride) in enumerate(zip(specs, made.strides, strict=True))
        # The strides of dimensions of length 1 are no matter to an engine, and are to who compares them.
        if stride is not None or 1 in spec.shape
    ]

    def run(inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        outputs = inside([
            inputs[place].contiguous() if order is None else inputs[place].permute(order).contiguous()
            for place, order in taken
        ])  # fmt: skip
        if not turned:
            return outputs
        outputs = list(outputs)
        for place, shape, stride in turned:
            if outputs[place].shape != shape or outputs[place].stride() != stride:
                outputs[place] = _strided(outputs[place], shape, stride)
        return outputs

    return run


def _strided(output: torch.Tensor, shape: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor whose elements lie in memory order with its own shape and strides: a view where it is dense."""
    if is_contiguous(shape, stride) or contiguous_order(shape, stride) is not None:
        return output.as_strided(shape, stride)
    distinct = output
    for dimension, step in enumerate(stride):
        if step == 0:  # expanded: one element of memory for all
            distinct = distinct.narrow(dimension, 0, 1)
    return output.new_empty_strided(distinct.shape, stride).copy_(distinct).as_strided(shape, stride)


class _Finish:
    """Makes the graph's outputs of its inputs and the roots: views, effects, Nones."""

    def __init__(self, site: Site, made: Cut) -> None:
        graph = site.graph
        effects = [effect_of(graph, value) for value in graph.effects]
        written = dict(zip(graph.effects, (into for into, _ in effects), strict=True))
        outputs = [None if value is None else written.get(value, value) for value in graph.outputs]
        asked = [value for value in (*outputs, *(source for _, source in effects)) if value is not None]
        given = [value for value in dict.fromkeys(asked) if value in set(made.tail)]
        known = [*graph.variables, *made.roots]
        self._constants = [site.constants[value] for value in graph.constants]
        self._tail = views(graph, [*known, *graph.constants], made.tail, given) if given else None
        places = {value: place for place, value in enumerate([*known, *graph.constants, *given])}
        self._copies = [(places[into], places[source]) for into, source in effects]
        self._outputs = [None if value is None else places[value] for value in outputs]

    def __call__(self, inputs: Sequence[torch.Tensor], roots: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        values = [*inputs, *roots, *self._constants]
        if self._tail is not None:
            values.extend(self._tail(*values))
        for into, source in self._copies:
            values[into].copy_(values[source])
        return tuple(None if place is None else values[place] for place in self._outputs)


def views(
    graph: Graph, known: Sequence[Reference], nodes: Sequence[Reference], given: Sequence[Reference]
) -> Callable[..., Sequence[torch.Tensor]]:
    """Return `given` as a function of `known`, by running `nodes` in PyTorch."""
    numbers = {value: number for number, value in enumerate([*known, *nodes])}
    specs = [graph.spec_of(value) for value in known]
    part = Graph(
        inputs=[spec for spec in specs if spec is not None],
        nodes=[graph.nodes[value - len(graph.inputs)].renumbered(numbers.__getitem__) for value in nodes],
        outputs=[numbers[value] for value in given],
    )
    run: Callable[..., Sequence[torch.Tensor]] = to_fx(part).forward
    return run


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


def guarded(site: Site, run: GraphFunction, *, only_tables: bool = False) -> GraphFunction:
    """Return `run`, behind a look at the range of integer inputs; where it is left, PyTorch computes, or raises.

    `only_tables`: the engine computes integers exactly, and only rows that a table has not are looked for.
    """
    checks = [check for check in ranges(site.graph) if check.is_table or not only_tables]
    if not checks:
        return run
    plain = bound(site.graph, site.constants)

    def call(*inputs: torch.Tensor) -> tuple[Any, ...]:
        for check in checks:
            given = inputs[check.place]
            if given.numel():
                low, high = torch.aminmax(given)
                if low.item() < check.low or high.item() > check.high:
                    return plain(*inputs)
        return run(*inputs)

    return call
