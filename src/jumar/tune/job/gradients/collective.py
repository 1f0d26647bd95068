"""Times of the training's own all-reduce, over its process group; each size as often, in turns.

Every process calls these functions at the same time; each gets the same answer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

LEAST_BYTES = 4 << 10
GROWTH = 4
MOST_BYTES = 64 << 20
WARM, REPEATS = 2, 9
SEED = 20


def gathered(value: Any, group: dist.ProcessGroup | None) -> list[Any]:
    """Return what every process of the group has, by rank."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return found


def slowest(times: Sequence[float], group: dist.ProcessGroup | None) -> list[float]:
    """Return for each sample the time of the process that took longest."""
    return [max(of_all) for of_all in zip(*gathered(list(times), group), strict=True)]


def sizes_up_to(total_bytes: int) -> list[int]:
    """Return the sizes to measure: from `LEAST_BYTES` to the total, at most `MOST_BYTES`, each `GROWTH` times the last.

    Small totals are measured beyond themselves: below some megabytes the bandwidth is lost in the noise of the latency.
    """
    most = min(max(total_bytes, LEAST_BYTES * GROWTH**5), MOST_BYTES)
    sizes = [LEAST_BYTES]
    while sizes[-1] * GROWTH < most:
        sizes.append(sizes[-1] * GROWTH)
    return [*sizes, most]


def all_reduce_times(
    sizes: Sequence[int], like: torch.Tensor, group: dist.ProcessGroup | None, wait: Callable[[], None]
) -> list[tuple[int, list[float]]]:
    """Return (bytes, seconds of each repetition) of all-reduces over flat tensors of the type and device of `like`."""
    buffers = [
        torch.zeros(size // like.element_size(), dtype=like.dtype, device=like.device) for size in sizes
    ]  # zeros stay zeros, however often they are added up
    order = random.Random(SEED)
    times: list[list[float]] = [[] for _ in sizes]
    for repeat in range(WARM + REPEATS):
        for place in order.sample(range(len(sizes)), len(sizes)):
            took = timed(lambda at=place: dist.all_reduce(buffers[at], group=group), group, wait)  # type: ignore[misc]
            if repeat >= WARM:
                times[place].append(took)
    return [
        (buffer.numel() * buffer.element_size(), slowest(of_size, group))
        for buffer, of_size in zip(buffers, times, strict=True)
    ]


def timed(work: Callable[[], Any], group: dist.ProcessGroup | None, wait: Callable[[], None]) -> float:
    """Return the seconds that `work` takes once every process has come here; `wait` waits for the device."""
    wait()
    dist.barrier(group=group)
    began = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - began
