"""Expandable segments: one range of addresses for each pool and stream, to which memory is mapped by the page.

The option `expandable_segments:True` of `PYTORCH_NPU_ALLOC_CONF`. Pages are 2 MiB in the small pool and
20 MiB in the large one; address space for 9/8 of the device's memory is set aside
(`ExpandableSegment` in `NPUCachingAllocator.cpp` of github.com/Ascend/pytorch).
"""

from __future__ import annotations

from bisect import insort
from typing import Protocol

from jumar.npu.memory.allocator.chunks import Chunk, PageChunk, Pool
from jumar.npu.memory.allocator.history import History
from jumar.npu.memory.allocator.stats import DeviceStats


class Device(Protocol):
    """What an expandable segment needs of the allocator it is part of."""

    capacity_bytes: int
    reserved: int
    stats: DeviceStats
    heads: dict[int, Chunk]
    history: History | None

    @property
    def limit_bytes(self) -> int:
        """What may be reserved."""

    def new_range(self, size: int) -> int:
        """Return the address of unused address space."""


def expand(device: Device, pool: Pool, size: int) -> Chunk | None:
    """Return a free chunk of at least `size` bytes at the lowest address, mapping pages for it; None: no room."""
    chunk = _candidate(device, pool, size)
    if not chunk.mapped:
        mapped = _map(device, chunk, min(chunk.size, size))
        if mapped is None:
            return None
        chunk = mapped
    while chunk.size < size:
        after = chunk.after
        mapped = None if after is None else _map(device, after, min(size - chunk.size, after.size))
        if mapped is None:
            return None
        chunk = mapped
    pool.remove(chunk)
    return chunk


def pages_of(chunk: Chunk) -> tuple[int, int]:
    """Return the addresses between which a chunk covers whole pages; nothing lies between equal or crossed ones."""
    page = chunk.pool.page
    return -(-chunk.address // page) * page, (chunk.address + chunk.size) // page * page


def unmap(device: Device, chunk: Chunk) -> None:
    """Give the whole pages of a free chunk back to the device."""
    pool = chunk.pool
    start, end = pages_of(chunk)
    if end <= start:
        return
    pool.remove(chunk)
    middle = chunk
    if start > chunk.address:
        middle = chunk.cut(start - chunk.address)
        pool.add(chunk)
    if middle.size > end - start:
        pool.add(middle.cut(end - start))
    size = middle.size
    if device.history is not None:
        device.history.note_chunk("segment_unmap", middle, size)
    middle.mapped = False  # type: ignore[misc]
    before, after = middle.before, middle.after
    if after is not None and not after.mapped:
        pool.unmapped.remove(after)
        middle.join()
    if before is not None and not before.mapped:
        before.join()
    else:
        insort(pool.unmapped, middle, key=_address)
    device.reserved -= size
    device.stats.num_device_free += 1
    device.stats.reserve(pool.is_small, 0, -size)
    rest = pool.unmapped[0]
    if len(pool.unmapped) == 1 and not rest.is_split:
        pool.unmapped.clear()
        del device.heads[rest.address]


def _address(chunk: Chunk) -> int:
    return chunk.address


def _candidate(device: Device, pool: Pool, size: int) -> Chunk:
    """Return the first of a run of free or unmapped chunks with room for `size`, of a new range if there is none."""
    for unmapped in pool.unmapped:
        before = unmapped.before
        first = before if before is not None and not before.used else unmapped
        room, chunk = 0, first
        while room < size and not chunk.used:
            room += chunk.size
            if chunk.after is None:
                break
            chunk = chunk.after
        if room >= size:
            return first
    num_pages = -(-(device.capacity_bytes * 9 // 8) // pool.page)
    start = -(-device.new_range((num_pages + 1) * pool.page) // pool.page) * pool.page
    made = PageChunk(start, num_pages * pool.page, pool)
    made.mapped = False
    device.heads[start] = made
    insort(pool.unmapped, made, key=_address)
    return made


def _map(device: Device, chunk: Chunk, size: int) -> Chunk | None:
    """Map pages for `size` bytes at the start of an unmapped chunk; return the free chunk they belong to."""
    pool = chunk.pool
    size = -(-size // pool.page) * pool.page
    if device.reserved + size > device.limit_bytes:
        return None
    pool.unmapped.remove(chunk)
    if size < chunk.size:
        insort(pool.unmapped, chunk.cut(size), key=_address)
    chunk.mapped = True  # type: ignore[misc]
    if device.history is not None:
        device.history.note_chunk("segment_map", chunk, size)
    before, after = chunk.before, chunk.after
    if after is not None and not after.used and after.mapped:
        pool.remove(after)
        chunk.join()
    if before is not None and not before.used and before.mapped:
        pool.remove(before)
        before.join()
        chunk = before
    pool.add(chunk)
    device.reserved += size
    device.stats.num_device_alloc += 1
    device.stats.reserve(pool.is_small, 0, size)
    return chunk
