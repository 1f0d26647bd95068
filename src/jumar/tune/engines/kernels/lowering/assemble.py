"""A graph as a program and a script: runs of the library's operations, and of ATen's between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from jumar.tune.engines.kernels.lowering.depthwise import lower_depthwise
from jumar.tune.engines.kernels.lowering.lower import Choices, Lowering, finished
from jumar.tune.engines.kernels.lowering.others import OTHERS
from jumar.tune.engines.kernels.lowering.products import lower_product
from jumar.tune.engines.kernels.lowering.tiles import lower_phased, lower_winograd, tiling_of
from jumar.tune.engines.kernels.lowering.weights import Doubles
from jumar.tune.engines.kernels.program import Program
from jumar.tune.engines.kernels.recognise.recognise import recognise
from jumar.tune.engines.kernels.recognise.steps import Aten, Conv, Step
from jumar.tune.graph import Graph, Reference
from jumar.tune.model.task import TensorSpec

Matrices = Mapping[int, Any]


def assemble(graph: Graph, constants: Mapping[int, Any], choices: Choices) -> tuple[Program, Matrices]:
    """Return the program of a graph, and the unpacked weights of its products by where they are packed.

    `constants` are the weights as tensors, by their place among the graph's inputs.
    """
    if choices.images:
        graph = one_image(graph)
    steps = recognise(graph)

    def constant(place: Reference) -> Doubles:
        return np.asarray(constants[place].detach().double().numpy())

    low = Lowering(graph=graph, steps=steps, constant=constant, choices=choices)
    low.uses = _uses(steps.steps, [steps.value(value) for value in graph.outputs if value is not None])
    items = [_lower_run(low, list(run), is_aten) for is_aten, run in groupby(steps.steps, _is_aten)]
    outputs = [None if value is None else steps.value(value) for value in graph.outputs]
    for value in outputs:
        if value in low.values:
            _store(low, value, items)
    program, starts = finished(low, {})
    script = {
        "externals": list(low.externals),
        "stored": low.written,
        "contiguous": low.contiguous,
        "shapes": {str(value): list(low.shape(value)) for value in low.externals if _is_image(graph, value)},
        "outputs": list(graph.outputs),
        "items": [_placed(item, starts) for item in items],
        "images": choices.images,
        "aliases": {str(value): steps.value(value) for value in steps.aliases},
    }
    program.script = script
    return program, low.matrices


def one_image(graph: Graph) -> Graph:
    """Return the graph for one image of its batch: the first dimension of every value becomes 1."""
    first = len(graph.inputs)

    def cut(spec: TensorSpec | None) -> TensorSpec | None:
        return None if spec is None or not spec.shape else replace(spec, shape=(1, *spec.shape[1:]))

    inputs = [spec if spec.constant else cut(spec) or spec for spec in graph.inputs]
    values = [cut(graph.spec_of(first + number)) for number in range(len(graph.nodes))]
    return replace(graph, inputs=inputs, values=values)


def _lower_run(low: Lowering, run: list[Step], is_aten: bool) -> dict[str, Any]:
    first = low.run_start = len(low.plan)
    if is_aten:
        nodes = [step.output for step in run]
        part = low.graph.part(nodes)
        for value in part.taken:
            source = low.steps.value(value)
            if source in low.values and source not in low.externals:
                low.stored(source)
        return {"aten": nodes, "plan": [first, len(low.plan)]}
    for step in run:
        if isinstance(step, Conv):
            lower_conv(low, step)
        else:
            OTHERS[type(step)](low, step)
    return {"plan": [first, len(low.plan)]}


def _store(low: Lowering, value: Reference, items: list[dict[str, Any]]) -> None:
    if value in low.externals:
        return
    low.stored(value)
    if not items or "aten" in items[-1]:
        items.append({"plan": [len(low.plan) - 1, len(low.plan)]})
    items[-1]["plan"][1] = len(low.plan)


def _placed(item: dict[str, Any], starts: list[int]) -> dict[str, Any]:
    first, last = item.pop("plan")
    return item | {"run": [starts[first], starts[last]]}


def _uses(steps: list[Step], outputs: list[Reference]) -> Counter[Reference]:
    return Counter([value for step in steps for value in step.inputs] + outputs)


def _is_aten(step: Step) -> bool:
    return isinstance(step, Aten)


def _is_image(graph: Graph, value: Reference) -> bool:
    spec = graph.spec_of(value)
    return spec is not None and len(spec.shape) in {2, 4}


def lower_conv(low: Lowering, step: Conv) -> None:
    """Plan a convolution or linear layer."""
    if step.is_depthwise:
        lower_depthwise(low, step)
        return
    way = tiling_of(low, step)
    if way.phased:
        lower_phased(low, step, way.m)
    elif way.m:
        lower_winograd(low, step, way.m)
    else:
        lower_product(low, step)
