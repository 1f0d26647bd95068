"""Channels-last borders: a graph whose four-dimensional inputs and weights are stored with the channels last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.plan.respecialise import respecialise
from jumar.tune.task import TensorSpec

CHANNELS_LAST = "channels_last"
_IMAGE = 4
"""Dimensions of a tensor that has channels: batch, channels, height, width."""


def in_layout(site: Site, make: Callable[[Site], GraphFunction]) -> GraphFunction:
    """Return `site.graph`'s function, computed by what `make` builds of the same graph in channels-last.

    Variable inputs are converted in each call, outputs are given back with the strides that the graph says.
    Raises TuneError when an operator refuses the layout.
    """
    graph = site.graph
    changed = {place: _turned(spec) for place, spec in enumerate(graph.inputs) if len(spec.shape) == _IMAGE}
    turned = respecialise(graph, changed)
    constants = {place: _converted(weight) for place, weight in site.constants.items()}
    example = [_converted(tensor) for tensor in site.example]
    function = make(replace(site, graph=turned, constants=constants, example=example))
    strides = [
        None if value is None or (spec := graph.spec_of(value)) is None else spec.stride for value in graph.outputs
    ]

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        made = function(*[_converted(tensor) for tensor in tensors])
        return tuple(
            output if output is None or stride is None else _with_stride(output, stride)
            for output, stride in zip(made, strides, strict=True)
        )

    return call


def _converted(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == _IMAGE else tensor


def _turned(spec: TensorSpec) -> TensorSpec:
    _, channels, height, width = spec.shape
    return replace(spec, stride=(channels * height * width, 1, channels * width, channels))


def _with_stride(output: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    if output.stride() == stride:
        return output
    made = torch.empty_strided(output.shape, stride, dtype=output.dtype, device=output.device)
    return made.copy_(output)
