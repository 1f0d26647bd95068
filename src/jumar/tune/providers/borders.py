"""Converting layouts at an operator's borders: what every Format policy pays for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.tune.engines.base import Site
from jumar.tune.model.task import Function


def between_borders(function: Function, convert: Callable[[torch.Tensor], torch.Tensor], site: Site) -> Function:
    """Return `function` on converted inputs, with its outputs put back to the strides they have without it.

    Weights are converted once, here: a Format policy is the innermost, so that with weights the graph of `site` is
    what `function` computes.
    """
    plain = function(*site.example)
    strides = [output.stride() for output in as_tuple(plain)]
    single = isinstance(plain, torch.Tensor)
    inner = _with_converted_weights(convert, site) if site.constants else function

    def call(*tensors: torch.Tensor) -> Any:
        outputs = as_tuple(inner(*[convert(tensor) for tensor in tensors]))
        given = tuple(restored(output, stride) for output, stride in zip(outputs, strides, strict=True))
        return given[0] if single else given

    return call


def as_tuple(outputs: Any) -> tuple[torch.Tensor, ...]:
    """Return an operator's outputs as a tuple."""
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)


def _with_converted_weights(convert: Callable[[torch.Tensor], torch.Tensor], site: Site) -> Function:
    from jumar.tune.graph.operators import function_of

    return function_of(site.graph, {place: convert(tensor) for place, tensor in site.constants.items()})


def restored(output: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """Return an output with these strides, copied where it has others."""
    if output.stride() == stride:
        return output
    return torch.empty_strided(output.shape, stride, dtype=output.dtype, device=output.device).copy_(output)
