"""How DistributedDataParallel cuts its buckets: as the script asks, and as a proposal is told to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from jumar.tune.search.gradients.forms import cap_list
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.splits import DDP_CAP, MIB, best_cap, capped, ddp_default


def is_default(ddp: DistributedDataParallel | None) -> bool:
    """Tell whether the buckets are cut by the default settings, as those of a model without DDP would be."""
    return not own_settings(ddp)


def _own_list(ddp: DistributedDataParallel | None) -> list[int]:
    """Return `bucket_cap_mb_list` of the script's DDP in bytes; torch before 2.13 has none."""
    return list(getattr(ddp, "bucket_bytes_cap_list", []))


def own_settings(ddp: DistributedDataParallel | None) -> dict[str, Any]:
    """Return the bucket settings of the script's own DDP; a model without one is measured against the default."""
    if _own_list(ddp):
        return {"bucket_cap_mb_list": [size / MIB for size in _own_list(ddp)]}
    if ddp is None or (ddp.bucket_bytes_cap == DDP_CAP and ddp.bucket_bytes_cap_default):
        return {}
    return {"bucket_cap_mb": ddp.bucket_bytes_cap / MIB}


def own_ends(ddp: DistributedDataParallel | None, gradients: Sequence[Gradient]) -> list[int]:
    """Return the split of the script's own DDP."""
    return ends_of(own_settings(ddp), gradients)


def ends_of(settings: Mapping[str, Any], gradients: Sequence[Gradient]) -> list[int]:
    """Return the split that DDP makes of bucket settings."""
    if settings.get("bucket_cap_mb_list"):
        return _listed_ends(gradients, [int(cap * MIB) for cap in settings["bucket_cap_mb_list"]])
    if settings.get("bucket_cap_mb"):
        return capped(gradients, int(settings["bucket_cap_mb"] * MIB))
    return ddp_default(gradients)


def _listed_ends(gradients: Sequence[Gradient], caps: Sequence[int]) -> list[int]:
    """Return the split that `bucket_cap_mb_list` makes: the last cap holds for all further buckets."""
    ends: list[int] = []
    filled = 0
    for place, one in enumerate(gradients):
        filled += one.size_bytes
        if filled >= caps[min(len(ends), len(caps) - 1)]:
            ends.append(place)
            filled = 0
    return ends if ends[-1:] == [len(gradients) - 1] else [*ends, len(gradients) - 1]


def settings_of(gradients: Sequence[Gradient], link: Link, ends: Sequence[int]) -> tuple[dict[str, Any], Sequence[int]]:
    """Return how this torch is told a split, and what it makes of it: before 2.13 all buckets have one cap."""
    if "bucket_cap_mb_list" in DistributedDataParallel.__init__.__code__.co_varnames:
        return {"bucket_cap_mb_list": list(cap_list(gradients, ends))}, ends
    cap, split = best_cap(gradients, link)
    return {"bucket_cap_mb": math.floor(cap / MIB * 1e6) / 1e6}, split.ends
