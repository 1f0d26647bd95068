"""What the caching allocator counts. Sizes are in bytes; every figure has its present value, its peak and its sums."""

from __future__ import annotations

Figures = dict[str, int]
"""`current`, `peak`, `allocated`, `freed`."""

NUM, SIZE, REQUESTED, INACTIVE, INACTIVE_SIZE, SEGMENTS, RESERVED = range(7)
"""Figures: chunks in use, their bytes, the bytes asked for; free parts of split segments, their bytes; segments
reserved, their bytes."""
NUM_FIGURES = 7
NAMES = {
    "allocation": NUM,
    "segment": SEGMENTS,
    "active": NUM,
    "inactive_split": INACTIVE,
    "allocated_bytes": SIZE,
    "reserved_bytes": RESERVED,
    "active_bytes": SIZE,
    "inactive_split_bytes": INACTIVE_SIZE,
    "requested_bytes": REQUESTED,
}
"""Names of the figures in `memory_stats`. A chunk is active as long as it is allocated: no stream holds it longer,
because work on the emulated device is done when a call returns."""


class Tally:
    """The figures of one size class."""

    __slots__ = ("base", "values")

    def __init__(self) -> None:
        self.values = [0] * (3 * NUM_FIGURES)
        """Current value, peak and sum of increases of each figure in turn."""
        self.base = [0] * NUM_FIGURES
        """Current values when the sums were last reset."""

    def current(self, figure: int) -> int:
        """Return the present value of a figure."""
        return self.values[3 * figure]

    def add(self, figure: int, amount: int) -> None:
        """Change a figure by this much."""
        values, at = self.values, 3 * figure
        values[at] += amount
        if amount > 0:
            values[at + 2] += amount
            values[at + 1] = max(values[at], values[at + 1])

    def reset_peak(self) -> None:
        """Let the peaks begin again at what is there now."""
        self.values[1::3] = self.values[0::3]

    def reset_sums(self) -> None:
        """Let the sums begin again at 0."""
        self.values[2::3] = [0] * NUM_FIGURES
        self.base[:] = self.values[0::3]

    def figures(self, figure: int) -> Figures:
        """Return a figure under the names of `memory_stats`."""
        current, peak, total = self.values[3 * figure : 3 * figure + 3]
        return {
            "current": current,
            "peak": peak,
            "allocated": total,
            "freed": total - current + self.base[figure],
        }


class DeviceStats:
    """The figures of one device: by size class, and of both together, of which only the peaks are kept."""

    def __init__(self) -> None:
        self.small, self.large = Tally(), Tally()
        self.peaks = [0] * NUM_FIGURES
        self.oversize = Tally()
        """Of chunks and segments that are too large to split; figures NUM and SEGMENTS."""
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0

    def add(self, is_small: bool, figure: int, amount: int) -> None:
        """Change a figure of one size class."""
        (self.small if is_small else self.large).add(figure, amount)
        self.peaks[figure] = max(self.peaks[figure], self.current(figure))

    def use(self, is_small: bool, number: int, size: int, requested: int) -> None:
        """Count a chunk that comes into use, or with negative arguments one that is freed."""
        self.add(is_small, NUM, number)
        self.add(is_small, SIZE, size)
        self.add(is_small, REQUESTED, requested)

    def forget(self, is_small: bool, size: int, requested: int) -> None:
        """Take a chunk that was just freed out of the sums, as if it had never been used."""
        values = (self.small if is_small else self.large).values
        for figure, amount in ((NUM, 1), (SIZE, size), (REQUESTED, requested)):
            values[3 * figure + 2] -= amount

    def unused(self, is_small: bool, number: int, size: int) -> None:
        """Count free parts of split segments."""
        self.add(is_small, INACTIVE, number)
        self.add(is_small, INACTIVE_SIZE, size)

    def reserve(self, is_small: bool, number: int, size: int) -> None:
        """Count segments taken from or given back to the device."""
        self.add(is_small, SEGMENTS, number)
        self.add(is_small, RESERVED, size)

    def current(self, figure: int) -> int:
        """Return the present value of a figure over both size classes."""
        return self.small.values[3 * figure] + self.large.values[3 * figure]

    def figures(self, figure: int) -> dict[str, Figures]:
        """Return a figure by the pool names of `memory_stats`."""
        small, large = self.small.figures(figure), self.large.figures(figure)
        total = {name: small[name] + large[name] for name in small}
        return {"all": {**total, "peak": self.peaks[figure]}, "small_pool": small, "large_pool": large}

    def reset_peak(self) -> None:
        """Let all peaks begin again."""
        for tally in (self.small, self.large, self.oversize):
            tally.reset_peak()
        self.peaks = [self.current(figure) for figure in range(NUM_FIGURES)]

    def reset_sums(self) -> None:
        """Let all sums and counts of events begin again."""
        for tally in (self.small, self.large, self.oversize):
            tally.reset_sums()
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = 0
