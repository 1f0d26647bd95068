"""Private memory pools of `torch.npu`, raw allocations, and the allocators of other libraries."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

import torch

from jumar.npu.core.devices import index_from
from jumar.npu.core.state import CURRENT
from jumar.npu.memory import memory
from jumar.npu.memory.allocator import PoolId
from jumar.npu.memory.snapshot import memory_snapshot
from jumar.npu.memory.storage import new_storage

_numbers = itertools.count(1)
_raw: dict[int, torch.UntypedStorage] = {}
"""Memory of `caching_allocator_alloc` by its address."""


class MemPool:
    """A pool of memory apart from the rest: `use_mem_pool` lets a block of code allocate from it.

    What is freed stays in the pool, for later allocations there. `use_on_oom`: others may use what is free in
    it when the device is full. `no_split`: every allocation keeps a segment of its own. When the pool is dropped
    its cached memory goes back to the device. Raises NotImplementedError for an `allocator` of another library.
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None:
            _no_allocators("torch.npu.MemPool(allocator=...)", "MemPool() without allocator")
        self.device = CURRENT.device
        self._id: PoolId = (0, next(_numbers))
        self._uses = [1]
        held = memory.settled(self.device)
        held.held[self._id] = use_on_oom
        if no_split:
            held.unsplit.add(self._id)
        weakref.finalize(self, _dropped, self._id)

    @property
    def id(self) -> PoolId:
        """The number of the pool, as a pair."""
        return self._id

    @property
    def allocator(self) -> None:
        """None: the pool takes its memory from the caching allocator."""

    def use_count(self) -> int:
        """Return how many hold the pool: this object, and each `use_mem_pool` block in it."""
        return self._uses[0]

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the segments of the pool, as `memory_snapshot` does."""
        return memory_snapshot(self._id)


def _dropped(pool: PoolId) -> None:
    for held in memory.DEVICES:
        held.allocator.held.pop(pool, None)
    memory.empty_cache(pool)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Let this thread allocate from `pool` on a device, by default the current one, within the block."""
    index = index_from(device)
    memory.settled(index).held.setdefault(pool.id, False)
    memory.enter_place(index, pool.id, 0)
    pool._uses[0] += 1
    try:
        yield
    finally:
        pool._uses[0] -= 1
        memory.leave_place()


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Allocate `size` bytes for another library and return their address; free it with `caching_allocator_delete`.

    The memory is this machine's: what runs on the emulated device can use the address.
    """
    number = getattr(stream, "npu_stream", stream)
    if number is not None and not isinstance(number, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch_npu.npu.Stream` or `int` representing a pointer to a "
            "existing stream"
        )
    storage = new_storage(size, index_from(device))
    _raw[storage.data_ptr()] = storage
    return storage.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what `caching_allocator_alloc` returned. Raises RuntimeError for another address."""
    if _raw.pop(mem_ptr, None) is None:
        raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")


def get_allocator_backend() -> str:
    """Return `native`, the name of PyTorch's caching allocator."""
    return "native"


class NPUPluggableAllocator:
    """An allocator in a shared library. Raises NotImplementedError: it would ask CANN for memory."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        _no_allocators("torch.npu.NPUPluggableAllocator", "torch.npu.MemPool or PYTORCH_NPU_ALLOC_CONF")


def change_current_allocator(allocator: Any) -> None:  # noqa: ARG001 (the vendor's signature)
    """Raise NotImplementedError: see `NPUPluggableAllocator`."""
    _no_allocators("torch.npu.change_current_allocator", "torch.npu.MemPool or PYTORCH_NPU_ALLOC_CONF")


def _no_allocators(function: str, instead: str) -> NoReturn:
    raise NotImplementedError(
        f"{function} has no meaning on the emulated NPU, whose allocator is simulated and asks no library for memory; "
        f"use {instead}."
    )
