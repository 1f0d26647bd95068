"""Which parameters can lie in a flat buffer, and why one cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import torch
from torch.nn.parameter import UninitializedParameter

Tensor = torch.Tensor


def reason_against(parameters: Iterable[Tensor]) -> str | None:
    """Return why these parameters cannot share a flat buffer, as a sentence without its full stop, or None."""
    listed = list(parameters)
    if len({id(parameter) for parameter in listed}) < len(listed):
        return "a parameter is listed twice; list each once"
    for position, parameter in enumerate(listed):
        found = _reason_against_one(parameter)
        if found:
            return f"parameter {position} of dtype {parameter.dtype} {found}"
    return _reason_against_shared(listed)


def _reason_against_one(parameter: Tensor) -> str | None:
    return next((reason for applies, reason in _REASONS if applies(parameter)), None)


def _is_in_fsdp(parameter: Tensor) -> bool:
    return getattr(parameter, "_is_flat_param", False) or getattr(parameter, "_fsdp_flattened", False)


_REASONS: tuple[tuple[Callable[[Tensor], bool], str], ...] = (
    (
        _is_in_fsdp,
        "belongs to FullyShardedDataParallel, which moves it in every forward pass, so that updates in a flat buffer "
        "would be lost; use torch's own optimizer with FSDP",
    ),
    (
        lambda parameter: isinstance(parameter, UninitializedParameter),
        "has no shape yet; run the model once before the optimizer is made",
    ),
    (
        lambda parameter: type(parameter) not in {torch.Tensor, torch.nn.Parameter},
        "is of a subclass of Tensor, whose values are not one plain tensor (fully_shard and tensor parallelism make "
        "such); use torch's own optimizer",
    ),
    (lambda parameter: parameter.layout is not torch.strided, "is sparse; use torch's own optimizer"),
    (
        lambda parameter: parameter.device.type == "meta",
        "is on the meta device and has no values; materialize it before the optimizer is made",
    ),
    (
        lambda parameter: not parameter.is_floating_point(),
        "is not of a real floating-point dtype; use torch's own optimizer",
    ),
    (lambda parameter: not parameter.is_leaf, "is not a leaf: it was calculated from other tensors; optimize those"),
)


def _reason_against_shared(parameters: list[Tensor]) -> str | None:
    """Find two parameters that show the same memory: apart, they would no longer be tied."""
    spans: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for position, parameter in enumerate(parameters):
        if parameter.numel():
            storage = parameter.untyped_storage()
            start = int(parameter.storage_offset())
            last = sum(
                int(size - 1) * int(stride) for size, stride in zip(parameter.shape, parameter.stride(), strict=True)
            )
            key = (str(parameter.device), storage.data_ptr())
            spans.setdefault(key, []).append((start, start + last, position))
    for of_storage in spans.values():
        of_storage.sort()
        for (_, last, first), (start, _, second) in pairwise(of_storage):
            if start <= last:
                return (
                    f"parameters {first} and {second} share memory, which flattening would separate; tie them by using "
                    "one parameter in both places"
                )
    return None
