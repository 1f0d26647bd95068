"""The tensors of a lowered graph: weights cast once, and the scales of their steps."""

from __future__ import annotations

from dataclasses import replace

import torch

from jumar.tune.engines.base import Site
from jumar.tune.plan.lowering.lowering import Lowering
from jumar.tune.plan.lowering.rewrite import WEIGHT_STEPS, Source, lowered

CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
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
    """Return the float32 scales, one for each index of `axis`, with the least square rounding error among `CLIPS`."""
    with torch.no_grad():
        rows = weight.detach().movedim(axis, 0).flatten(1).to(torch.float32)
        greatest = rows.abs().amax(1)
        greatest = torch.where(greatest > 0, greatest, torch.ones_like(greatest))
        best = torch.full_like(greatest, torch.inf)
        chosen = greatest / WEIGHT_STEPS[1]
        for clip in CLIPS:
            scales = greatest * (clip / WEIGHT_STEPS[1])
            steps = (rows / scales[:, None]).round_().clamp_(*WEIGHT_STEPS)
            error = steps.mul_(scales[:, None]).sub_(rows).square_().sum(1)
            chosen = torch.where(error < best, scales, chosen)
            best = torch.minimum(error, best)
        return chosen
