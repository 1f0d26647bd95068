"""What a data loader does for a batch, in the process that does it: `observe_fetchers`.

`fetch` is the dataset's part (`__getitems__`, `__getitem__` or the iterator of an IterableDataset), `collate` follows,
and `transfer` is what a worker's queue does: put the tensors into shared memory and serialise the batch.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from jumar.capture.notes.patches import Patches

_WORKER = "torch.utils.data._utils.worker"
Sink = Callable[..., None]
"""Takes a name, begin and length in nanoseconds, and further fields."""


def observe_fetchers(patches: Patches, sink_of: Callable[[Any], Sink | None]) -> None:
    """Have each fetcher that a loader makes from now on timed. `sink_of` is asked once a fetcher with
    `get_worker_info()`, None in the process that iterates; it may answer None.
    """
    kinds: Any = torch.utils.data.dataloader._DatasetKind
    create = kinds.create_fetcher

    def create_fetcher(kind: Any, dataset: Any, auto_collation: Any, collate_fn: Any, drop_last: Any) -> Any:
        sink = sink_of(torch.utils.data.get_worker_info())
        if sink is None:
            return create(kind, dataset, auto_collation, collate_fn, drop_last)
        stages = _Stages(sink, dataset)
        fetcher = create(kind, dataset, auto_collation, stages.around_collate(collate_fn), drop_last)
        fetcher.fetch = stages.around_fetch(fetcher.fetch)
        return fetcher

    patches.replace(kinds, "create_fetcher", staticmethod(create_fetcher))


class _Stages:
    """Times the stages of one fetcher, which works on one batch at a time."""

    def __init__(self, sink: Sink, dataset: Any) -> None:
        self._sink = sink
        self._way = _way(dataset)
        self._collated: tuple[int, int] | None = None

    def around_collate(self, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(collate, updated=())
        def timed(samples: Any) -> Any:
            begin = time.time_ns()
            batch = collate(samples)
            self._collated = (begin, time.time_ns() - begin)
            return batch

        return timed

    def around_fetch(self, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(index: Any) -> Any:
            self._collated = None
            begin = time.time_ns()
            batch = fetch(index)
            end = time.time_ns()
            num_samples = len(index) if isinstance(index, list | tuple) else 1
            collated = self._collated or (end, 0)
            self._sink("loader fetch", begin, collated[0] - begin, samples=num_samples, way=self._way)
            self._sink("loader collate", *collated, samples=num_samples)
            return batch

        return timed


def _way(dataset: Any) -> str:
    if isinstance(dataset, torch.utils.data.IterableDataset):
        return "__iter__"
    return "__getitems__" if getattr(dataset, "__getitems__", None) else "__getitem__"


def observe_transfer(patches: Patches, sink: Sink) -> None:
    """Time how a worker's queue serialises batches. For the process of a worker, which sends nothing else."""
    dumps = ForkingPickler.dumps

    def timed(obj: Any, protocol: int | None = None) -> Any:
        begin = time.time_ns()
        data = dumps(obj, protocol)
        if _is_batch(obj):
            sink("loader transfer", begin, time.time_ns() - begin, batch=obj[0])
        return data

    patches.replace(ForkingPickler, "dumps", staticmethod(timed))


def _is_batch(obj: Any) -> bool:
    """Return whether a worker's message is (number of the batch, batch), and not that its stream is at an end."""
    return isinstance(obj, tuple) and isinstance(obj[0], int) and type(obj[1]).__module__ != _WORKER


def observe_pinning(patches: Patches, sink: Sink) -> None:
    """Time `pin_memory` of batches, in the loader's thread for it or where the batch is made."""
    module: Any = torch.utils.data._utils.pin_memory
    pin = module.pin_memory
    nested = threading.local()

    def timed(data: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(nested, "is_inside", False):  # it calls itself for what a batch holds
            return pin(data, *args, **kwargs)
        nested.is_inside = True
        begin = time.time_ns()
        try:
            return pin(data, *args, **kwargs)
        finally:
            nested.is_inside = False
            sink("loader pin", begin, time.time_ns() - begin)

    patches.replace(module, "pin_memory", timed)
