"""Let the CPU kernel see which arguments of a call show the same memory.

An npu tensor reaches the CPU kernel as an alias with a storage of its own. PyTorch's checks of overlapping arguments
(`MemoryOverlap.cpp`; the vendor's `check_memory` calls the same functions) compare storages, and kernels compare
tensors (`is_same`). So arguments that share a storage on the npu get aliases that share one on the CPU, and one tensor
that is given twice gets one alias. Only operators that write need it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.plans import CPU_KEYS, Plan
from jumar.npu.core.retag import storage_address, to_cpu
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.dispatch.arguments import unwrap
from jumar.npu.memory.storage import reshape, resize_storage

Tensor = torch.Tensor

_as_strided = get_kernel("aten::as_strided", "CPU").call_boxed
_set = get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed


def unwrap_written(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with CPU tensors in place of npu ones, as `unwrap`, with the overlap that they have.

    Raises RuntimeError as PyTorch does when tensors are on different devices.
    """
    cpu, keywords = unwrap(plan, args, kwargs)
    if shares(plan, args, kwargs):
        _share(plan, args, kwargs, cpu, keywords)
    return cpu, keywords


def shares(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether two npu tensors of a call show the same storage."""
    seen: set[int] = set()
    num = 0
    for tensor in _npu_tensors(plan, args, kwargs):
        seen.add(storage_address(tensor))
        num += 1
    return len(seen) < num


def _npu_tensors(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield the dense npu tensors of a call."""
    for i in plan.single:
        if i >= len(args):
            break
        if _is_dense(args[i]):
            yield args[i]
    for i in plan.lists:
        if i < len(args) and args[i] is not None:
            yield from filter(_is_dense, args[i])
    for name in plan.keywords & kwargs.keys():
        value = kwargs[name]
        yield from filter(_is_dense, value if isinstance(value, (list, tuple)) else (value,))


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_cpu and value.layout is torch.strided


def _share(
    plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any], cpu: list[Any], keywords: dict[str, Any]
) -> None:
    """Replace the aliases of tensors that share a storage."""
    groups = _groups(_npu_tensors(plan, args, kwargs))
    _replace(plan, args, kwargs, cpu, keywords, {
        id(tensor): _part(tensor, storage, plan.sees_conj)
        for group in groups.values()
        if len(group) > 1
        for storage in [_whole(group).untyped_storage()]
        for tensor in group
    })  # fmt: skip


def call_staged(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any], targets: Sequence[Tensor]) -> None:
    """Run an operator whose outputs share storages with other arguments and have to grow.

    The arguments' storages are copied to the CPU, where the kernel can let them grow while the arguments still share
    them, and copied back. `targets` are the outputs; each gets the shape that the kernel left.
    """
    cpu, keywords = unwrap(plan, args, kwargs)
    groups = _groups(_npu_tensors(plan, args, kwargs))
    staged = {address: _staged(group[0].untyped_storage()) for address, group in groups.items()}
    parts = {
        id(tensor): _part(tensor, staged[address], plan.sees_conj)
        for address, group in groups.items()
        for tensor in group
    }
    _replace(plan, args, kwargs, cpu, keywords, parts)
    try:
        plan.call(CPU_KEYS, *cpu, **keywords)
    finally:
        for address, group in groups.items():
            _bring_back(group[0].untyped_storage(), staged[address])
        for target in targets:
            part = parts[id(target)]
            if (part.shape, part.stride()) != (target.shape, target.stride()):
                reshape(target, part.shape, part.stride())


def _groups(tensors: Iterator[Tensor]) -> dict[int, list[Tensor]]:
    """Return the tensors by the address of their storage."""
    groups: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(storage_address(tensor), []).append(tensor)
    return groups


def _replace(
    plan: Plan,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    cpu: list[Any],
    keywords: dict[str, Any],
    aliases: Mapping[int, Tensor],
) -> None:
    """Put the aliases, given by the `id` of their npu tensor, into the arguments for the CPU."""

    def alias_of(value: Any, found: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [aliases.get(id(item), other) for item, other in zip(value, found, strict=True)]
        return aliases.get(id(value), found)

    for i in (*plan.single, *plan.lists):
        if i < len(args) and args[i] is not None:
            cpu[i] = alias_of(args[i], cpu[i])
    for name in plan.keywords & kwargs.keys():
        if kwargs[name] is not None:
            keywords[name] = alias_of(kwargs[name], keywords[name])


def _staged(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return a copy of an npu storage in memory of the CPU, which can grow."""
    found = torch.empty(storage.nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()
    ctypes.memmove(found.data_ptr(), storage.data_ptr(), storage.nbytes())
    return found


def _bring_back(storage: torch.UntypedStorage, staged: torch.UntypedStorage) -> None:
    if staged.nbytes() > storage.nbytes():
        resize_storage(storage, staged.nbytes())
    ctypes.memmove(storage.data_ptr(), staged.data_ptr(), staged.nbytes())


def _whole(group: list[Tensor]) -> Tensor:
    """Return a CPU tensor over the whole storage of these npu tensors, in the smallest of their element types."""
    smallest = min(group, key=Tensor.element_size)
    num = smallest.untyped_storage().nbytes() // smallest.element_size()
    return to_cpu(_as_strided(CPU_KEYS, smallest, [num], [1], 0))


def _part(tensor: Tensor, storage: torch.UntypedStorage, keeps_conj: bool) -> Tensor:
    """Return the CPU tensor that shows of `storage` what `tensor` shows of its own."""
    found = torch.empty(0, dtype=tensor.dtype, device="cpu")
    _set(CPU_KEYS, found, storage, tensor.storage_offset(), list(tensor.shape), list(tensor.stride()))
    if keeps_conj and tensor.is_conj():
        torch._C._set_conj(found, True)
    if keeps_conj and tensor.is_neg():
        torch._C._set_neg(found, True)
    return found
