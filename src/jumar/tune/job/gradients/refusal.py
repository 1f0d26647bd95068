"""Why the gradients of a training cannot be split, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from torch.distributed.tensor import DTensor

from jumar.tune.job.gradients.watch import Watched

_SHOWN = 3


def refusal(watched: Watched) -> str:
    """Return why the gradients of a model cannot be split, as a sentence; empty when they can."""
    return next(chain(_of_wrapper(watched), _of_gradients(watched)), "")


def _of_wrapper(watched: Watched) -> Iterator[str]:
    ddp = watched.ddp
    kinds = {type(one).__name__ for one in watched.inner.modules()}
    is_sharded = any(isinstance(one, DTensor) for one in watched.parameters.values())
    if is_sharded or kinds & {"FullyShardedDataParallel", "DistributedDataParallel"}:
        yield (
            f"{type(watched.inner).__name__} shards its parameters, or wraps parts of itself in "
            "DistributedDataParallel. A split is for one model whose gradients are reduced as a whole."
        )
    if ddp is None:
        return
    if ddp.find_unused_parameters:
        yield (
            "DistributedDataParallel has find_unused_parameters=True and so keeps its buckets in the order of the "
            "parameters, whatever the order of the gradients. Set it to False where every parameter is used."
        )
    if ddp.static_graph:
        yield (
            "DistributedDataParallel has static_graph=True, with which two of them cannot share one model, and so "
            "cannot be compared. Tune with static_graph=False, then set it again."
        )
    if ddp._comm_hooks:
        yield (
            "DistributedDataParallel has a communication hook, which decides what travels. Tune without it, or split "
            "inside the hook."
        )


def _of_gradients(watched: Watched) -> Iterator[str]:
    parameters = watched.parameters
    if watched.is_sparse:
        yield (
            f"{_named(sorted(watched.is_sparse))} got sparse gradients, which are reduced one by one and fill no "
            "bucket. Build its module with sparse=False."
        )
    missing = sorted(set(parameters) - set(watched.ready_ns()))
    if missing:
        yield (
            f"{_named(missing)} got no gradient in some step, so that its bucket would never be complete. Set "
            "requires_grad=False for what is not trained, or use it in every step."
        )
    dtypes = sorted({str(one.dtype) for one in parameters.values()})
    if len(dtypes) > 1:
        yield (
            f"gradients have the types {', '.join(dtypes)}, and DistributedDataParallel fills buckets of each type "
            "apart: no list of sizes describes that. Keep one type of parameters."
        )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more parameters" if more > 0 else "")
