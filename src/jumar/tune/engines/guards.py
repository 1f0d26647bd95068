"""Calls whose integers an engine would not compute as PyTorch does are computed by PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.engines.bound import bound
from jumar.tune.engines.integers import ranges


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
