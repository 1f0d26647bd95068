"""Pieces of memory, and the pools that keep the free ones."""

from __future__ import annotations

from bisect import bisect_left

PoolId = tuple[int, int]
ADDRESS_BITS = 56
"""A pool orders its free chunks by `size << ADDRESS_BITS | address`: one integer compares faster than a pair."""


class Chunk:
    """A piece of a segment: in use while `used` is true, else free."""

    __slots__ = ("address", "after", "age", "before", "pool", "requested", "size", "used")
    mapped = True
    """Whether there is memory behind it; False only in expandable segments."""
    expandable = False

    before: Chunk | None
    after: Chunk | None

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        self.address, self.size, self.pool = address, size, pool
        self.before = self.after = None
        self.used: object = None
        """Who uses it, or something true where that does not matter."""
        self.requested = 0
        self.age = 0
        """Allocations in the pool since this chunk was last used; counted with garbage collection only."""

    @property
    def is_split(self) -> bool:
        """Whether it is only a part of its segment."""
        return self.before is not None or self.after is not None

    def cut(self, size: int) -> Chunk:
        """Keep the first `size` bytes and return the rest as a chunk of its own."""
        rest = type(self)(self.address + size, self.size - size, self.pool)
        rest.before, rest.after = self, self.after
        if rest.after is not None:
            rest.after.before = rest
        self.after, self.size = rest, size
        return rest

    def join(self) -> None:
        """Take in the chunk after this one."""
        second = self.after
        assert second is not None, "only a chunk with a successor is joined with it"
        self.size += second.size
        self.after = second.after
        if self.after is not None:
            self.after.before = self


class PageChunk(Chunk):
    """A piece of an expandable segment, with memory behind it while `mapped`."""

    __slots__ = ("mapped",)
    mapped: bool
    expandable = True

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        super().__init__(address, size, pool)
        self.mapped = True

    def cut(self, size: int) -> Chunk:
        """Keep the first `size` bytes and return the rest, mapped or not as this chunk is."""
        rest = super().cut(size)
        rest.mapped = self.mapped  # type: ignore[misc]
        return rest


class Pool:
    """Free chunks of one size class, one stream and one memory pool, ordered by size and then address."""

    __slots__ = ("chunks", "is_small", "keys", "owner", "page", "stream", "unmapped")

    def __init__(self, is_small: bool, owner: PoolId, stream: int, page: int) -> None:
        self.is_small, self.owner, self.stream = is_small, owner, stream
        self.page = page
        """Bytes that an expandable segment grows by."""
        self.keys: list[int] = []
        self.chunks: list[Chunk] = []
        """In the order of `keys`."""
        self.unmapped: list[Chunk] = []
        """Of expandable segments, by address."""

    def add(self, chunk: Chunk) -> None:
        """Make a chunk available."""
        key = chunk.size << ADDRESS_BITS | chunk.address
        position = bisect_left(self.keys, key)
        self.keys.insert(position, key)
        self.chunks.insert(position, chunk)

    def remove(self, chunk: Chunk) -> None:
        """Take this chunk out."""
        position = bisect_left(self.keys, chunk.size << ADDRESS_BITS | chunk.address)
        del self.keys[position], self.chunks[position]

    def best(self, size: int) -> Chunk | None:
        """Take out and return the smallest chunk of at least `size` bytes, if there is one."""
        position = bisect_left(self.keys, size << ADDRESS_BITS)
        if position == len(self.keys):
            return None
        del self.keys[position]
        return self.chunks.pop(position)

    def ordered(self, least: int = 0) -> list[Chunk]:
        """Return the free chunks of at least `least` bytes, the smallest first."""
        return self.chunks[bisect_left(self.keys, least << ADDRESS_BITS) :]
