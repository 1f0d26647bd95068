"""The proposal against the training's own split, both as DistributedDataParallel, on the model and inputs of one step.

A sample is a forward and a backward pass with its all-reduces. The loss is the sum of the outputs, because the script's
own is not known here: the backward pass of the model is the same. Nothing steps, so that both have the same parameters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree

from jumar.tune.job.gradients.collective import SEED, gathered, slowest, timed
from jumar.tune.job.gradients.watch import Watched, wait_for
from jumar.tune.model.gate import Gain, gain_of

LEAST_PAIRS, MOST_PAIRS = 15, 101
WARM = 3
"""Passes of each side before any is timed: DDP cuts its buckets anew after the first."""
ROUNDING = 8
"""Gradients may differ by so many times eps of their greatest value: processes are added up in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """What became of it."""

    gain: Gain
    before_s: Sequence[float]
    after_s: Sequence[float]
    buckets_before: Sequence[int]
    """Bytes of each bucket, as DDP says after it has cut them."""
    buckets_after: Sequence[int]
    disagreement: str
    """Where the gradients of the two differ, in words; empty: they agree."""
    worst_error: float
    """Greatest difference of a gradient over its greatest value."""


class Side:
    """One split: a DistributedDataParallel around the training's model."""

    def __init__(self, watched: Watched, settings: Mapping[str, Any]) -> None:
        self._inner = watched.inner
        self.module = DistributedDataParallel(watched.inner, **_kept(watched.ddp), **settings)

    def passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Run a forward and a backward pass."""
        leaves = _pytree.tree_leaves(self.module(*args, **kwargs))
        losses = [
            leaf.float().sum()
            for leaf in leaves
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
        ]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]

    def gradients(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return the reduced gradients of one pass, from a fixed state of random numbers and buffers."""
        before = [buffer.detach().clone() for buffer in self._inner.buffers()]
        torch.manual_seed(SEED)
        self._inner.zero_grad(set_to_none=True)
        self.passed(args, kwargs)
        with torch.no_grad():
            for buffer, value in zip(self._inner.buffers(), before, strict=True):
                buffer.copy_(value)
        found = self._inner.named_parameters()
        return {name: one.grad.detach().clone() for name, one in found if one.grad is not None}

    def buckets(self) -> list[int]:
        """Return the bytes of each bucket, in the order in which they are reduced."""
        data = self.module._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        text = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes", ""))
        return [int(size) for size in text.split(",") if size.strip()]


def fight(
    watched: Watched, args: tuple[Any, ...], kwargs: Mapping[str, Any], settings: Mapping[str, Any],
    own: Mapping[str, Any], seconds: float,
) -> Duel:  # fmt: skip
    """Measure DDP with `settings` against DDP with the script's `own`, interleaved, in about so many seconds.

    Every process of the training calls it at the same time, each gets the same answer.
    """
    group = watched.ddp.process_group if watched.ddp is not None else None
    own_side, new_side = Side(watched, own), Side(watched, settings)
    worst, disagreement = compare_gradients(own_side, new_side, args, kwargs, group)

    def wait() -> None:
        wait_for(watched.inner)

    def sample(side: Side) -> float:
        watched.inner.zero_grad(set_to_none=True)
        return timed(lambda: side.passed(args, kwargs), group, wait)

    pair_s = sum(max(sample(side) for _ in range(WARM)) for side in (own_side, new_side))
    pair_s = max(gathered(pair_s, group))
    num_pairs = min(max(int(seconds / max(pair_s, 1e-9)), LEAST_PAIRS), MOST_PAIRS)
    before_s, after_s = _pairs(sample, own_side, new_side, num_pairs)
    before_s, after_s = slowest(before_s, group), slowest(after_s, group)
    return Duel(
        gain=gain_of([one * 1e6 for one in before_s], [one * 1e6 for one in after_s]),
        before_s=before_s, after_s=after_s, buckets_before=own_side.buckets(), buckets_after=new_side.buckets(),
        disagreement=disagreement, worst_error=worst,
    )  # fmt: skip


def _pairs(sample: Callable[[Side], float], own: Side, new: Side, num_pairs: int) -> tuple[list[float], list[float]]:
    """Return the times of both sides; which one goes first is drawn for each pair, alike in every process."""
    order, before_s, after_s = random.Random(SEED), list[float](), list[float]()
    for _ in range(num_pairs):
        if order.random() < 0.5:
            before_s.append(sample(own))
            after_s.append(sample(new))
        else:
            after_s.append(sample(new))
            before_s.append(sample(own))
    return before_s, after_s


def _kept(ddp: DistributedDataParallel | None) -> dict[str, Any]:
    """Return the settings of the script's own DDP that both sides keep."""
    if ddp is None:
        return {}
    kept: dict[str, Any] = {
        "device_ids": ddp.device_ids,
        "output_device": ddp.output_device,
        "gradient_as_bucket_view": ddp.gradient_as_bucket_view,
        "process_group": ddp.process_group,
    }
    return kept if ddp.broadcast_buffers else {**kept, "broadcast_buffers": False}  # newer torch warns of the name


def compare_gradients(
    own: Side, new: Side, args: tuple[Any, ...], kwargs: Mapping[str, Any], group: dist.ProcessGroup | None
) -> tuple[float, str]:
    """Return the worst error of the new side's gradients in any process, and where it is too great, in words.

    The own side runs twice: what differs between two runs of it (random numbers, the order of threads) is no fault.
    """
    expected = [own.gradients(args, kwargs) for _ in range(WARM)]
    found = [new.gradients(args, kwargs) for _ in range(WARM)][-1]
    worst, sentence = 0.0, ""
    for name, value in expected[-1].items():
        scale = float(value.abs().max())
        floor = float((value - expected[-2][name]).abs().max())
        error = float((found[name] - value).abs().max()) if name in found else float("inf")
        if scale and error / scale > worst:
            worst = error / scale
        if not error <= 2 * floor + ROUNDING * torch.finfo(value.dtype).eps * scale:
            sentence = sentence or f"{name} differs by {error:.3g}, its greatest value is {scale:.3g}"
    told = gathered((worst, sentence), group)
    return max(one for one, _ in told), next((text for _, text in told if text), "")
