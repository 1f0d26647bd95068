"""Count the memory of live npu storages, by logical device.

The CPU tensor behind an npu storage is owned by that storage (see `retag`), so it dies exactly when
the storage does: a weak reference to it is a free-callback that needs no allocator.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import torch

from jumar.device.emulator.state import STATE


@dataclass(slots=True)
class Pool:
    """Bytes of one logical device. `peak` is since the start or the last reset."""

    allocated: int = 0
    peak: int = 0
    num_allocations: int = 0
    num_frees: int = 0
    total_allocated: int = 0
    peak_live: int = 0
    live: set[Block] = field(default_factory=set)

    def reset_peak(self) -> None:
        """Let the peak begin again at what is allocated now."""
        self.peak, self.peak_live = self.allocated, len(self.live)

    def reset_totals(self) -> None:
        """Let the totals begin again at what is live now."""
        self.total_allocated, self.num_allocations, self.num_frees = self.allocated, len(self.live), 0

    @property
    def num_live(self) -> int:
        """Storages that are alive."""
        return len(self.live)


class Block(weakref.ref):  # type: ignore[type-arg]
    """The life of one storage."""

    __slots__ = ("pool", "size_bytes", "storage")
    pool: Pool
    size_bytes: int
    storage: int


POOLS: list[Pool] = [Pool()]
INDEX_OF_STORAGE: dict[int, int] = {}
"""Logical device of each live storage that is not on device 0, by the address of its StorageImpl."""


def pool(index: int) -> Pool:
    """Return the pool of this logical device, made when first asked for."""
    while len(POOLS) <= index:
        POOLS.append(Pool())
    return POOLS[index]


def _freed(block: Block) -> None:
    owner = block.pool
    owner.live.discard(block)
    owner.allocated -= block.size_bytes
    owner.num_frees += 1
    if block.storage:
        INDEX_OF_STORAGE.pop(block.storage, None)


def track(owner: torch.Tensor, index: int = 0, storage: int = 0) -> None:
    """Count the storage of the CPU tensor `owner` on device `index` until it is freed.

    `storage` is the address of the npu StorageImpl; it must be given for a device other than 0.
    """
    block = Block(owner, _freed)
    block.size_bytes = size = owner.untyped_storage().nbytes()
    block.storage = storage
    block.pool = owned = POOLS[0] if not index else pool(index)
    owned.live.add(block)
    owned.num_allocations += 1
    owned.total_allocated += size
    owned.allocated += size
    if owned.allocated > owned.peak:
        owned.peak = owned.allocated
        owned.peak_live = max(owned.peak_live, len(owned.live))
    if index:
        INDEX_OF_STORAGE[storage] = index


def index_of(tensor: torch.Tensor) -> int:
    """Return the logical device of an npu tensor."""
    if not STATE.multiple:
        return 0
    return INDEX_OF_STORAGE.get(tensor.untyped_storage()._cdata, 0)
