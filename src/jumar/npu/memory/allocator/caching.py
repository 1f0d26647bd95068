"""The vendor's caching allocator, simulated: which memory of a device is in use, cached, split or free.

torch_npu's allocator is PyTorch's caching allocator for CUDA with other constants. A request is padded by
32 bytes (what CANN asks for; not from Ascend950 on) and rounded up to 512. Requests up to 1 MiB are cut
from segments of 2 MiB, requests up to 10 MiB from segments of 20 MiB, larger ones get a segment of their
own, rounded up to 2 MiB. Freed memory stays cached, is merged with free neighbours, and serves the
smallest request that fits it best. A segment that does not fit makes the allocator give its unsplit
cached segments back and try again; what then does not fit is out of memory
(`NPUCachingAllocator.cpp` of github.com/Ascend/pytorch).

Nothing is allocated here: addresses are numbers. `memory` feeds it the life of every storage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from jumar.npu.memory.allocator import expandable
from jumar.npu.memory.allocator.chunks import ADDRESS_BITS, Chunk, Pool, PoolId
from jumar.npu.memory.allocator.config import AllocatorConfig
from jumar.npu.memory.allocator.history import History
from jumar.npu.memory.allocator.stats import NUM, SEGMENTS, DeviceStats

MIB = 2**20
ROUND = 512
PADDING = 32
"""Bytes that every request is padded by before Ascend950."""
SMALL_REQUEST = MIB
"""Largest rounded request of the small pool."""
SMALL_SEGMENT = 2 * MIB
MIN_OWN_SEGMENT = 10 * MIB
"""Rounded requests from here on get a segment of their own."""
ROUND_SEGMENT = 2 * MIB

_FIRST_ADDRESS = 0x12_4000_0000
"""Where the simulated addresses begin."""
DEFAULT_POOL: PoolId = (0, 0)


class DoesNotFitError(Exception):
    """No memory, even after the cache was given back. `size_bytes` is the segment that was tried."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(size_bytes)
        self.size_bytes = size_bytes


class CachingAllocator:
    """The memory of one device."""

    def __init__(self, capacity_bytes: int, config: AllocatorConfig, padding: int = PADDING) -> None:
        self.capacity_bytes = capacity_bytes
        """What the device has."""
        self.allowed_bytes: int | None = None
        """What the process may use of it, where a fraction was set."""
        self.config = config
        self.padding = padding
        self.stats = DeviceStats()
        self.reserved = 0
        self.pools: dict[tuple[PoolId, int], tuple[Pool, Pool]] = {}
        """Small and large pool, by memory pool and stream."""
        self.heads: dict[int, Chunk] = {}
        """First chunk of each segment, by address."""
        self.held: dict[PoolId, bool] = {}
        """Private memory pools that someone holds, and whether others may fall back on them."""
        self.unsplit: set[PoolId] = set()
        """Private memory pools that never split a segment."""
        self.history: History | None = None
        """What is kept of each action, while someone records the memory's history."""
        self._next_address = _FIRST_ADDRESS
        self.default = self.pools_of(DEFAULT_POOL, 0)
        """The small and the large pool that requests come from, unless they say otherwise."""

    @property
    def limit_bytes(self) -> int:
        """What may be reserved."""
        return self.capacity_bytes if self.allowed_bytes is None else min(self.capacity_bytes, self.allowed_bytes)

    def pools_of(self, owner: PoolId, stream: int) -> tuple[Pool, Pool]:
        """Return the small and the large pool of a memory pool and a stream."""
        found = self.pools.get((owner, stream))
        if found is None:
            small = Pool(True, owner, stream, SMALL_SEGMENT)
            large = Pool(False, owner, stream, self.config.page_bytes)
            found = self.pools[owner, stream] = (small, large)
        return found

    def configure(self, config: AllocatorConfig) -> None:
        """Follow other options from now on; expandable segments that there are keep their pages."""
        self.config = config
        for _, large in self.pools.values():
            if not large.unmapped and not any(chunk.pool is large for chunk in self.heads.values()):
                large.page = config.page_bytes

    def rounded(self, requested: int) -> int:
        """Return the bytes that a request takes."""
        size = requested + self.padding
        divisions = self.config.roundup_divisions(size)
        if divisions > 1 and size > ROUND * divisions:
            step = (1 << size.bit_length() - 1) // divisions
            return -(-size // step) * step
        return -(-size // ROUND) * ROUND

    def segment_size(self, size: int) -> int:
        """Return the bytes reserved for a rounded request that no cached chunk serves."""
        if size <= SMALL_REQUEST:
            return SMALL_SEGMENT
        if size < MIN_OWN_SEGMENT:
            return self.config.large_segment_bytes
        return -(-size // ROUND_SEGMENT) * ROUND_SEGMENT

    def malloc(self, requested: int, owner: PoolId = DEFAULT_POOL, stream: int = 0) -> Chunk:
        """Return a chunk for a request of more than 0 bytes. Raises DoesNotFitError."""
        config = self.config
        pools = self.default if owner is DEFAULT_POOL and not stream else self.pools_of(owner, stream)
        if config.is_plain:
            size = (requested + self.padding + (ROUND - 1)) & -ROUND
            pool = pools[0] if size <= SMALL_REQUEST else pools[1]
            chunk = pool.best(size) or self._obtain(pool, size)
        else:
            size = self.rounded(requested)
            pool = pools[0] if size <= SMALL_REQUEST else pools[1]
            chunk = self._find(pool, size) or self._obtain(pool, size)
        rest = chunk.size - size
        if rest and self._splits(chunk, size, rest):
            self._split(chunk, size)
        elif (chunk.before is not None or chunk.after is not None) and not chunk.expandable:
            self.stats.unused(pool.is_small, -1, -chunk.size)
        chunk.used = True
        chunk.requested = requested
        self.stats.use(pool.is_small, 1, chunk.size, requested)
        if chunk.size >= config.max_split_bytes:
            self.stats.oversize.add(NUM, 1)
        if self.history is not None:
            self.history.note_chunk("alloc", chunk, requested)
        return chunk

    def free(self, chunk: Chunk) -> None:
        """Put a chunk back into the cache."""
        pool, size, stats = chunk.pool, chunk.size, self.stats
        if self.history is not None:
            self.history.note_chunk("free_requested", chunk, chunk.requested)
            self.history.note_chunk("free_completed", chunk, chunk.requested)
        stats.use(pool.is_small, -1, -size, -chunk.requested)
        if size >= self.config.max_split_bytes:
            stats.oversize.add(NUM, -1)
        chunk.used = None
        number = grown = 0
        before, after = chunk.before, chunk.after
        if after is not None and not after.used and after.mapped:
            pool.remove(after)
            number, grown = -1, -after.size
            chunk.join()
        if before is not None and not before.used and before.mapped:
            pool.remove(before)
            number, grown = number - 1, grown - before.size
            before.join()
            chunk = before
        pool.add(chunk)
        if chunk.before is not None or chunk.after is not None:
            number, grown = number + 1, grown + chunk.size
        if (number or grown) and not chunk.expandable:
            stats.unused(pool.is_small, number, grown)

    def fits(self, requested: int) -> bool:
        """Return whether a request of the default pool would succeed, the cache given back if need be."""
        size = self.rounded(requested)
        keys = self.default[size > SMALL_REQUEST].keys
        if self.config.is_plain and keys and keys[-1] >> ADDRESS_BITS >= size:
            return True
        return self.reserved - self.releasable() + self.segment_size(size) <= self.limit_bytes

    def releasable(self) -> int:
        """Return the bytes that emptying the cache would give back."""
        total = 0
        for pool in self._given_back(None):
            for chunk in pool.chunks:
                if chunk.expandable:
                    start, end = expandable.pages_of(chunk)
                    total += max(0, end - start)
                elif not chunk.is_split:
                    total += chunk.size
        return total

    def empty_cache(self, owner: PoolId | None = None) -> None:
        """Give cached segments back: of the default pool and of private pools that nobody holds, or of one of those."""
        self.stats.num_sync_all_streams += 1
        for pool in self._given_back(owner):
            for chunk in pool.ordered():
                if chunk.expandable:
                    expandable.unmap(self, chunk)
                elif not chunk.is_split:
                    self.release(chunk)

    def release(self, chunk: Chunk) -> None:
        """Give a whole free segment back to the device."""
        chunk.pool.remove(chunk)
        del self.heads[chunk.address]
        self.reserved -= chunk.size
        self.stats.num_device_free += 1
        self.stats.reserve(chunk.pool.is_small, -1, -chunk.size)
        if chunk.size >= self.config.max_split_bytes:
            self.stats.oversize.add(SEGMENTS, -1)
        if self.history is not None:
            self.history.note_chunk("segment_free", chunk, chunk.size)

    def segments(self) -> Iterator[list[Chunk]]:
        """Yield the mapped chunks of each segment, in the order of addresses."""
        for address in sorted(self.heads):
            found: list[Chunk] = []
            chunk: Chunk | None = self.heads[address]
            while chunk is not None:
                if chunk.mapped:
                    found.append(chunk)
                chunk = chunk.after
            if found:
                yield found

    def new_range(self, size: int) -> int:
        """Return the address of unused address space, on a 2 MiB boundary."""
        address = self._next_address
        self._next_address += -(-size // ROUND_SEGMENT) * ROUND_SEGMENT
        return address

    def _given_back(self, owner: PoolId | None) -> Iterator[Pool]:
        for (pool_id, _), pools in tuple(self.pools.items()):
            if pool_id not in self.held and (owner is None or owner == pool_id):
                yield from pools

    def _splits(self, chunk: Chunk, size: int, rest: int) -> bool:
        if self.unsplit and chunk.pool.owner in self.unsplit:
            return False
        if chunk.pool.is_small or self.config.expandable_segments:
            return rest >= ROUND
        return rest > SMALL_REQUEST and size < self.config.max_split_bytes

    def _split(self, chunk: Chunk, size: int) -> None:
        """Cut a chunk that is about to be used down to `size`; the rest becomes free."""
        was_split = chunk.before is not None or chunk.after is not None
        rest = chunk.cut(size)
        chunk.pool.add(rest)
        if chunk.expandable:
            return
        if was_split:
            self.stats.unused(chunk.pool.is_small, 0, -size)
        else:
            self.stats.unused(chunk.pool.is_small, 1, rest.size)

    def _find(self, pool: Pool, size: int) -> Chunk | None:
        """Return the cached chunk that serves a request where options change the choice, taken out of its pool."""
        config = self.config
        if self._collects:
            for chunk in pool.chunks:
                chunk.age += 1
        position = bisect_left(pool.keys, size << ADDRESS_BITS)
        if position == len(pool.keys):
            return None
        found: Chunk | None = pool.chunks[position]
        if found is not None and found.expandable:
            chunks = pool.ordered(size)
            if config.expandable_segments:
                found = _least_growing(chunks)
            else:
                found = next((chunk for chunk in chunks if not chunk.expandable), None)
        if found is None or size < config.max_split_bytes <= found.size:
            return None
        if size >= config.max_split_bytes and found.size >= size + config.max_non_split_rounding_bytes:
            return None
        found.age = 0
        pool.remove(found)
        return found

    @property
    def _collects(self) -> bool:
        return self.allowed_bytes is not None and self.config.garbage_collection_threshold > 0

    def _obtain(self, pool: Pool, size: int) -> Chunk:
        """Reserve memory for a request that the cache does not serve, giving cached memory back if need be."""
        if self._collects:
            self._collect_garbage()
        found = self._reserve(pool, size) or self._from_others(pool, size)
        if found is None and self._release_oversize(pool, size):
            found = self._reserve(pool, size)
        if found is None:
            self.empty_cache()
            self.stats.num_alloc_retries += 1
            found = self._reserve(pool, size)
        if found is None:
            self.stats.num_ooms += 1
            if self.history is not None:
                left = max(0, self.capacity_bytes - self.reserved)
                self.history.note("oom", size, left, pool.owner, pool.stream)
            raise DoesNotFitError(self.segment_size(size))
        return found

    def _reserve(self, pool: Pool, size: int) -> Chunk | None:
        """Return new memory, or None where the device has no room for it."""
        if self.config.expandable_segments:
            return expandable.expand(self, pool, size)
        segment = self.segment_size(size)
        if self.reserved + segment > self.limit_bytes:
            return None
        chunk = Chunk(self.new_range(segment), segment, pool)
        self.heads[chunk.address] = chunk
        self.reserved += segment
        self.stats.num_device_alloc += 1
        self.stats.reserve(pool.is_small, 1, segment)
        if segment >= self.config.max_split_bytes:
            self.stats.oversize.add(SEGMENTS, 1)
        if self.history is not None:
            self.history.note_chunk("segment_alloc", chunk, segment)
        return chunk

    def _from_others(self, pool: Pool, size: int) -> Chunk | None:
        """Return a chunk of a private pool that lends its memory when the rest is full."""
        lenders = (owner for owner, lends in self.held.items() if lends and pool.owner == DEFAULT_POOL)
        pools = (self.pools_of(owner, pool.stream)[0 if pool.is_small else 1] for owner in lenders)
        return next((found for found in (self._find(other, size) for other in pools) if found is not None), None)

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """Give back chunks of at least `max_split_size_mb`, as many as the request needs."""
        least = self.config.max_split_bytes
        if not self.config.limits_split:
            return False
        wanted = max(size, least)
        candidates = [chunk for chunk in pool.ordered(least) if not chunk.is_split]
        enough = next((chunk for chunk in candidates if chunk.size >= wanted), None)
        if enough is not None:
            self.release(enough)
            return True
        released = 0
        while released < wanted and candidates:
            chunk = candidates.pop()
            released += chunk.size
            self.release(chunk)
        return released >= wanted

    def _collect_garbage(self) -> None:
        """Give back cached segments of the large pools older than the average, once the threshold is passed."""
        target = self.reserved - int(self.config.garbage_collection_threshold * (self.allowed_bytes or 0))
        large = [pools[1] for (owner, _), pools in self.pools.items() if owner == DEFAULT_POOL]
        candidates = [chunk for pool in large for chunk in pool.ordered() if not chunk.is_split]
        while target > 0 and candidates:
            average = sum(chunk.age for chunk in candidates) / len(candidates)
            for chunk in [chunk for chunk in candidates if chunk.age >= average]:
                target -= chunk.size
                candidates.remove(chunk)
                self.release(chunk)


def _least_growing(chunks: list[Chunk]) -> Chunk:
    """Return the chunk of an expandable segment to use: the first that could not grow to less than the next one."""
    found = chunks[0]
    for chunk in chunks[1:]:
        if not found.expandable or _could_be(chunk) >= _could_be(found):
            break
        found = chunk
    return found


def _could_be(chunk: Chunk) -> int:
    after = chunk.after
    return chunk.size + (after.size if after is not None and not after.mapped else 0)
