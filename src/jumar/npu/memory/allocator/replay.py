"""Many small allocations at once: what `CachingAllocator.malloc` and `free` do, for the common case, in one loop."""

# ruff: noqa: PLR1730 (a call of max costs four times the comparison, and this is the hot loop)

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import add, sub
from typing import Protocol

from jumar.npu.memory.allocator.caching import ROUND, SMALL_REQUEST, CachingAllocator
from jumar.npu.memory.allocator.chunks import ADDRESS_BITS, Chunk
from jumar.npu.memory.allocator.config import UNLIMITED


class Event(Protocol):
    """The life of a storage: met first when it begins, while `chunk` is None, then when it ends."""

    size_bytes: int
    chunk: Chunk | None

    @property
    def place(self) -> object:
        """None for the default pool and stream."""


def replay(  # noqa: PLR0912, PLR0915 (one loop: see the note in it)
    allocator: CachingAllocator, is_small: bool, events: Sequence[Event], position: int
) -> int:
    """Follow events from `position` on, while one of the default pools serves them; return where it stopped.

    The allocator must have its default options.
    """
    # NOTE: one loop over local variables. Methods and attributes for the same steps take twice as long
    # (measured: 6 us for an allocation and its end, 2.7 us so), and every storage of the device comes by here.
    small_pool, large_pool = allocator.default
    stats = allocator.stats
    if is_small:
        pool, tally, other, smallest, largest, kept = small_pool, stats.small, stats.large, 1, SMALL_REQUEST, 0
    else:
        pool, tally, other, smallest, largest = large_pool, stats.large, stats.small, SMALL_REQUEST + 1, UNLIMITED
        kept = SMALL_REQUEST
    keys, chunks = pool.keys, pool.chunks
    num, num_peak, num_sum, size, size_peak, size_sum, asked, asked_peak, asked_sum = tally.values[:9]
    idle, idle_peak, idle_sum, free, free_peak, free_sum = tally.values[9:15]
    others = other.values[0:15:3]
    # What this size class may hold before the peak of both rises.
    num_all, size_all, asked_all, idle_all, free_all = map(sub, stats.peaks, others)
    extra = allocator.padding + ROUND - 1
    make = Chunk.__new__
    end = len(events)
    while position < end:
        event = events[position]
        chunk = event.chunk
        if chunk is None:
            requested = event.size_bytes
            wanted = (requested + extra) & -ROUND
            found = bisect_left(keys, wanted << ADDRESS_BITS)
            if not smallest <= wanted <= largest or found == len(keys) or not requested or event.place is not None:
                break
            del keys[found]
            event.chunk = chunk = chunks.pop(found)
            left = chunk.size - wanted
            after = chunk.after
            was_split = after is not None or chunk.before is not None
            if left > kept:
                rest = make(Chunk)
                rest.address = address = chunk.address + wanted
                rest.size, rest.pool, rest.used = left, pool, None
                rest.before, rest.after = chunk, after
                if after is not None:
                    after.before = rest
                chunk.after, chunk.size = rest, wanted
                key = left << ADDRESS_BITS | address
                found = bisect_left(keys, key, 0, found)
                keys.insert(found, key)
                chunks.insert(found, rest)
                if was_split:
                    free -= wanted
                else:
                    idle += 1
                    idle_sum += 1
                    free += left
                    free_sum += left
                    if idle > idle_peak:
                        idle_peak = idle
                    if idle > idle_all:
                        idle_all = idle
                    if free > free_peak:
                        free_peak = free
                    if free > free_all:
                        free_all = free
            else:
                wanted += left
                if was_split:
                    idle -= 1
                    free -= wanted
            chunk.used = event
            chunk.requested = requested
            num += 1
            num_sum += 1
            size += wanted
            size_sum += wanted
            asked += requested
            asked_sum += requested
            if num > num_peak:
                num_peak = num
            if num > num_all:
                num_all = num
            if size > size_peak:
                size_peak = size
            if size > size_all:
                size_all = size
            if asked > asked_peak:
                asked_peak = asked
            if asked > asked_all:
                asked_all = asked
        else:
            if chunk.pool is not pool:
                break
            wanted = chunk.size
            num -= 1
            size -= wanted
            asked -= chunk.requested
            chunk.used = None
            own, joined = wanted, 0
            after, before = chunk.after, chunk.before
            if after is not None and not after.used:
                left = after.size
                found = bisect_left(keys, left << ADDRESS_BITS | after.address)
                del keys[found], chunks[found]
                joined = 1
                wanted += left
                chunk.after = after = after.after
                if after is not None:
                    after.before = chunk
            if before is not None and not before.used:
                left = before.size
                found = bisect_left(keys, left << ADDRESS_BITS | before.address)
                del keys[found], chunks[found]
                joined += 1
                wanted += left
                before.after = after
                if after is not None:
                    after.before = before
                chunk = before
                before = chunk.before
            chunk.size = wanted
            key = wanted << ADDRESS_BITS | chunk.address
            found = bisect_left(keys, key)
            keys.insert(found, key)
            chunks.insert(found, chunk)
            if after is None and before is None:
                free -= wanted - own
                idle -= joined
            else:
                free += own
                free_sum += own
                if free > free_peak:
                    free_peak = free
                if free > free_all:
                    free_all = free
                idle += 1 - joined
                if not joined:
                    idle_sum += 1
                    if idle > idle_peak:
                        idle_peak = idle
                    if idle > idle_all:
                        idle_all = idle
        position += 1
    tally.values[:9] = num, num_peak, num_sum, size, size_peak, size_sum, asked, asked_peak, asked_sum
    tally.values[9:15] = idle, idle_peak, idle_sum, free, free_peak, free_sum
    stats.peaks[:5] = map(add, (num_all, size_all, asked_all, idle_all, free_all), others)
    return position
