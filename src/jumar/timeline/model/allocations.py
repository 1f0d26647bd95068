"""`Allocations`: who held a device's memory when most of it was in use, and how well it was packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owner:
    """The blocks that one place of the program held at the peak."""

    name: str
    """The user's frame, `train.py:41`, or the operator, `aten::addmm`, where the source knows no frames."""
    size_bytes: int
    num_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """The memory of one device over a recording. Sizes in bytes, times in nanoseconds since the timeline's origin."""

    device: str
    """`npu:0`, `cuda:0`."""
    peak_bytes: int
    """Most that was in use at once; of a snapshot, what the program asked for: blocks are rounded up."""
    peak_ns: int | None
    """When that was; None where the source has no times."""
    owners: Sequence[Owner]
    """Who held the peak, the largest first. Their sizes add up to `peak_bytes`."""
    allocated_bytes: int
    """In use at the end of the recording."""
    reserved_bytes: int
    """Taken from the device at the end of the recording."""
    peak_reserved_bytes: int
    largest_free_bytes: int | None = None
    """Largest free piece inside what is reserved, at the end; None where the source does not tell."""
    num_allocations: int = 0
    num_reallocations: int = 0
    """Allocations of a size that the same place of the program had freed before: memory that was given back and asked
    for again, as every step does."""
    num_device_allocations: int = 0
    """Times that memory was taken from the device itself, which the host waits for."""
    num_device_frees: int = 0
    """Times that memory was given back to the device; many of them during training mean that the cache was emptied."""
    num_out_of_memory: int = 0

    @property
    def fragmentation(self) -> float:
        """Share of the reserved memory that is not in use at the end, 0 to 1."""
        return 1 - self.allocated_bytes / self.reserved_bytes if self.reserved_bytes else 0.0

    @property
    def peak_reserved_share(self) -> float:
        """Peak in use over peak reserved, 0 to 1; low where free pieces were too small to be used again."""
        return self.peak_bytes / self.peak_reserved_bytes if self.peak_reserved_bytes else 1.0
