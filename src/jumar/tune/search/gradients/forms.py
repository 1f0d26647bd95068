"""`Forms`: a split as each framework wants to be told, and the vendor's file of measured gradients.

| where | form |
|---|---|
| DistributedDataParallel, torch 2.13 and newer | `bucket_cap_mb_list`: MiB of each bucket, in ready order |
| DistributedDataParallel | `bucket_cap_mb`: one cap for all buckets |
| MindSpore | `all_reduce_fusion_config`: the last parameter of each bucket, in the order of the parameters |
| Megatron-LM | `bucket_size`: one cap for all buckets, in parameters |

MindSpore cuts the parameters in their own order, not in ready order, so its split is solved in that order: a bucket is
ready when the slowest of its gradients is. Source: MindSpore's `nn/wrap/grad_reducer.py` and the manual's page on
`set_auto_parallel_context`; PyTorch 2.13's `torch/nn/parallel/distributed.py`.

`<soc>_gradient_fusion.json` is what the vendor's gradient tuning leaves: a list of
`{"modelhash": …, "modelvalue": {"gradientTime": […], "gradientSize": […]}}`, times in ns between two gradients (the
first counts as 0), sizes in bytes. CANN solves the split from it when it compiles. Its hash is made of CANN's own
graph, so that CANN does not find a model under Jumar's hash. Source: CANN's open `hccl_engine` (ge).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, OutputError
from jumar.base.files import write_text
from jumar.base.findings import Json
from jumar.tune.model.task import digest
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.solve import Bounds, solve
from jumar.tune.search.gradients.splits import MIB, Split, best_cap, sizes_of

FILE_NAME = "gradient_fusion.json"
"""End of the name of the vendor's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """One split, told to each framework."""

    bucket_cap_mb_list: tuple[float, ...]
    bucket_cap_mb: float
    cap_split: Split
    """What `bucket_cap_mb` alone comes to."""
    all_reduce_fusion_config: tuple[int, ...]
    fusion_split: Split
    """The same in the order of the parameters, the last first."""
    megatron_bucket_size: int

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values."""
        return {
            "bucket_cap_mb_list": list(self.bucket_cap_mb_list),
            "bucket_cap_mb": self.bucket_cap_mb,
            "bucket_cap_mb_split": self.cap_split.to_json(),
            "all_reduce_fusion_config": list(self.all_reduce_fusion_config),
            "all_reduce_fusion_split": self.fusion_split.to_json(),
            "megatron_bucket_size": self.megatron_bucket_size,
        }


def forms_of(gradients: Sequence[Gradient], link: Link, split: Split, bounds: Bounds | None = None) -> Forms:
    """Return the forms of a split of `gradients`, which are in ready order."""
    cap, cap_split = best_cap(gradients, link)
    config, fusion_split = fusion_config(gradients, link, bounds)
    return Forms(
        bucket_cap_mb_list=cap_list(gradients, split.ends),
        bucket_cap_mb=math.floor(cap / MIB * 1e6) / 1e6,
        cap_split=cap_split,
        all_reduce_fusion_config=config,
        fusion_split=fusion_split,
        megatron_bucket_size=-(-cap // item_size(gradients[0].dtype)),
    )


def cap_list(gradients: Sequence[Gradient], ends: Sequence[int]) -> tuple[float, ...]:
    """Return `bucket_cap_mb_list` of a split: DDP closes a bucket once it has that many MiB.

    Rounded down, by less than 2 bytes, so that no bucket waits for a gradient more.
    """
    return tuple(math.floor(size / MIB * 1e6) / 1e6 for size in sizes_of(gradients, ends))


def fusion_config(
    gradients: Sequence[Gradient], link: Link, bounds: Bounds | None = None
) -> tuple[tuple[int, ...], Split]:
    """Return `all_reduce_fusion_config` and its split, solved in the order of the parameters, the last first."""
    ordered = in_parameter_order(gradients)
    split = solve(ordered, link, bounds)
    starts = (0, *(end + 1 for end in split.ends[:-1]))
    return tuple(sorted(len(ordered) - 1 - start for start in starts)), split


def in_parameter_order(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Return the gradients as MindSpore cuts them: the last parameter first, ready once those before it are."""
    latest = 0
    ordered = []
    for one in sorted(gradients, key=lambda one: -one.place):
        latest = max(latest, one.ready_ns)
        ordered.append(replace(one, ready_ns=latest))
    return ordered


def item_size(dtype: str) -> int:
    """Return the bytes of one number of a type such as `float32`, `bfloat16`."""
    bits = "".join(character for character in dtype.partition("_")[0] if character.isdigit())
    return max(int(bits or 8) // 8, 1)


def model_hash(gradients: Sequence[Gradient]) -> str:
    """Return Jumar's key of these gradients in the vendor's file: a decimal number of 64 bits."""
    return str(int(digest([[one.dtype, one.size_bytes] for one in gradients])[:16], 16))


def gradient_fusion(gradients: Sequence[Gradient]) -> dict[str, Any]:
    """Return these gradients as an entry of the vendor's file."""
    times = [one.ready_ns for one in gradients]
    between = [0, *(later - earlier for earlier, later in pairwise(times))]
    value = {"gradientTime": between, "gradientSize": [one.size_bytes for one in gradients]}
    return {"modelhash": model_hash(gradients), "modelvalue": value}


def write_gradient_fusion(path: Path, gradients: Sequence[Gradient]) -> None:
    """Put these gradients into the vendor's file at `path`, in the place of what it has under their hash.

    Raises InputError for a file of another form, OutputError when it cannot be written.
    """
    entry = gradient_fusion(gradients)
    known = [one for one in read_gradient_fusion(path) if one["modelhash"] != entry["modelhash"]]
    try:
        write_text(path, json.dumps([*known, entry], indent=1) + "\n")
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}). Set ASCEND_WORK_PATH.") from error


def read_gradient_fusion(path: Path) -> list[dict[str, Any]]:
    """Return the entries of the vendor's file; none where there is none. Raises InputError."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InputError(f"{path} must hold JSON and cannot be read ({error}). Move it away.") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) and "modelhash" in one for one in found):
        raise InputError(f"{path} must hold a list of objects with modelhash; it does not. Move it away.")
    return found
