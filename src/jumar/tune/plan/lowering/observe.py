"""What values a graph's tensors hold on given inputs: the ranges that int8 steps over, and what fp16 cannot hold.

`lowered_site` makes the tensors of a lowered graph: weights cast once, and the scales of their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from jumar.tune.engines.base import Site
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.fx import to_fx
from jumar.tune.plan.lowering.lowering import Lowering, Range
from jumar.tune.plan.lowering.rewrite import VALUE_STEPS, WEIGHT_STEPS, Source, lowered, steps_of

CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of the greatest absolute value that are tried: narrower steps for all but the rare great values."""

Inputs = Sequence[torch.Tensor]
"""One set of a graph's variable inputs, in order."""


def observe(
    graph: Graph, constants: Mapping[int, torch.Tensor], sets: Iterable[Inputs], values: Iterable[Reference]
) -> dict[Reference, Range]:
    """Return for each of `values` the range whose 256 steps round it with the least square error, over all `sets`.

    Values that are not finite, or of no element, have no range. The graph is run twice on every set.
    """
    kept = [list(inputs) for inputs in sets]
    greatest = extremes(graph, constants, kept, values)
    candidates = {value: [_clipped(bounds, clip) for clip in CLIPS] for value, bounds in greatest.items()}
    errors = {value: [0.0] * len(CLIPS) for value in candidates}

    def look(value: Reference, tensor: torch.Tensor) -> None:
        for place, one in enumerate(candidates[value]):
            errors[value][place] += _square_error(tensor, one)

    for inputs in kept:
        run_watched(graph, constants, inputs, dict.fromkeys(candidates, look))
    return {value: ranges[errors[value].index(min(errors[value]))] for value, ranges in candidates.items()}


def extremes(
    graph: Graph, constants: Mapping[int, torch.Tensor], sets: Iterable[Inputs], values: Iterable[Reference]
) -> dict[Reference, Range]:
    """Return the least and greatest value of each of `values` over all `sets`; none for one that is not finite."""
    found: dict[Reference, Range] = {}
    strange: set[Reference] = set()

    def look(value: Reference, tensor: torch.Tensor) -> None:
        if not tensor.numel() or not tensor.is_floating_point():
            return
        low, high = (bound.item() for bound in torch.aminmax(tensor))
        if not (abs(low) < torch.inf and abs(high) < torch.inf):
            strange.add(value)
        before = found.get(value, (low, high))
        found[value] = (min(low, before[0]), max(high, before[1]))

    watched = dict.fromkeys(values, look)
    for inputs in sets:
        run_watched(graph, constants, inputs, watched)
    return {value: bounds for value, bounds in found.items() if value not in strange}


def run_watched(
    graph: Graph,
    constants: Mapping[int, torch.Tensor],
    inputs: Inputs,
    watched: Mapping[Reference, Callable[[Reference, torch.Tensor], None]],
) -> tuple[Any, ...]:
    """Run the graph eagerly on one set of inputs, which stay as they are, and return its outputs.

    Every value in `watched` is shown to its function once, as soon as it is there.
    """
    given = dict(zip(graph.variables, inputs, strict=True))
    if graph.effects:
        given = {place: tensor.clone() for place, tensor in given.items()}
    everything = [constants[place] if spec.constant else given[place] for place, spec in enumerate(graph.inputs)]
    with torch.no_grad():
        return tuple(_Watching(to_fx(graph), watched).run(*everything))


class _Watching(fx.Interpreter):
    """`to_fx` writes the placeholders and then the nodes in the order of the graph's values."""

    def __init__(
        self, module: fx.GraphModule, watched: Mapping[Reference, Callable[[Reference, torch.Tensor], None]]
    ) -> None:
        super().__init__(module)
        self._numbers = {node: number for number, node in enumerate(module.graph.nodes)}
        self._watched = watched

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        look = self._watched.get(self._numbers[n])
        if look is not None and isinstance(made, torch.Tensor):
            look(self._numbers[n], made)
        return made


def _clipped(bounds: Range, clip: float) -> Range:
    bound = clip * max(map(abs, bounds))
    low, high = (min(max(one, -bound), bound) for one in bounds)
    return low, high


def _square_error(tensor: torch.Tensor, candidate: Range) -> float:
    scale, zero = steps_of(candidate)
    rounded = torch.fake_quantize_per_tensor_affine(tensor.to(torch.float32), scale, zero, *VALUE_STEPS)
    return float((rounded - tensor).square_().sum())


CLIPS_OF_WEIGHTS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
"""Shares of a channel's greatest weight that are tried as the last step. Steps that leave out rare great values are
finer for all others; the share with the least square error is taken."""


def lowered_site(site: Site, lowering: Lowering) -> Site:
    """Return `site` with its graph lowered and the weights to go with it; `site` itself without a lowering.

    Raises TuneError as `lowered` does.
    """
    if not lowering:
        return site
    made = lowered(site.graph, lowering)
    constants = {
        place: _tensor(source, site.constants[source.place])
        for place, source in enumerate(made.sources)
        if made.graph.inputs[place].constant
    }
    return replace(site, graph=made.graph, constants=constants)


def _tensor(source: Source, weight: torch.Tensor) -> torch.Tensor:
    if source.how == "same":
        return weight
    if source.how == "cast":
        return weight.to(getattr(torch, source.dtype))
    if source.how == "scales":
        return channel_scales(weight, source.axis)
    return torch.zeros(weight.shape[source.axis], dtype=getattr(torch, source.dtype))


def channel_scales(weight: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the float32 scales, one for each index of `axis`: those with the least square error."""
    with torch.no_grad():
        rows = weight.detach().movedim(axis, 0).flatten(1).to(torch.float32)
        greatest = rows.abs().amax(1)
        greatest = torch.where(greatest > 0, greatest, torch.ones_like(greatest))
        best = torch.full_like(greatest, torch.inf)
        chosen = greatest / WEIGHT_STEPS[1]
        for clip in CLIPS_OF_WEIGHTS:
            scales = greatest * (clip / WEIGHT_STEPS[1])
            steps = (rows / scales[:, None]).round_().clamp_(*WEIGHT_STEPS)
            error = steps.mul_(scales[:, None]).sub_(rows).square_().sum(1)
            chosen = torch.where(error < best, scales, chosen)
            best = torch.minimum(error, best)
        return chosen
