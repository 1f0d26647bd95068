"""`Split`: where the gradients are cut, and what a split costs after the backward pass has ended.

Gradients travel over one channel, one bucket after the other. A bucket starts when its last gradient is ready and the
bucket before it has arrived. The *tail* is the time from the last ready gradient to the arrival of the last bucket.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from jumar.base.errors import UsageError
from jumar.base.findings import Json
from jumar.tune.search.gradients.model import Gradient, Link

MIB = 1 << 20
DDP_CAP = 25 * MIB
"""`bucket_cap_mb` of DistributedDataParallel by default."""
DDP_FIRST = MIB
"""Its first bucket, while `bucket_cap_mb` is left at its default."""
MOST_PARTS = 100
TIE_S = 1e-6
"""Tails this close are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to cut the gradients."""

    ends: tuple[int, ...]
    """The last gradient of each bucket, counted in ready order from 0."""
    tail_s: float
    """By the model of the link: how long the last bucket arrives after the last gradient is ready."""

    @property
    def num_buckets(self) -> int:
        """How many all-reduces a step has."""
        return len(self.ends)

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values."""
        return {"ends": list(self.ends), "tail_s": self.tail_s, "num_buckets": self.num_buckets}


def sizes_of(gradients: Sequence[Gradient], ends: Sequence[int]) -> list[int]:
    """Return the bytes of each bucket."""
    sums = [0, *accumulate(one.size_bytes for one in gradients)]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return [sums[end + 1] - sums[start] for start, end in zip(starts, ends, strict=True)]


def evaluated(gradients: Sequence[Gradient], link: Link, ends: Sequence[int]) -> Split:
    """Return a split with its tail. Raises UsageError for indices that cut nothing, or not everything."""
    last = len(gradients) - 1
    if not ends or list(ends) != sorted(set(ends)) or ends[0] < 0 or ends[-1] != last:
        raise UsageError(
            f"a split must have ascending indices of the last gradient of each bucket and end with {last}; got "
            f"{list(ends)}. Mend the indices."
        )
    sums = list(accumulate(one.size_bytes for one in gradients))
    ready = [one.ready_ns * 1e-9 for one in gradients]
    return Split(ends=tuple(ends), tail_s=_tail(sums, ready, link, ends))


def one_bucket(gradients: Sequence[Gradient]) -> list[int]:
    """Return the split into one bucket."""
    return [len(gradients) - 1]


def per_tensor(gradients: Sequence[Gradient]) -> list[int]:
    """Return the split into one bucket a gradient."""
    return list(range(len(gradients)))


def capped(gradients: Sequence[Gradient], cap: float, first: float | None = None) -> list[int]:
    """Return the split that DistributedDataParallel makes: a bucket is closed once it has `cap` bytes or more.

    `first` is the cap of the first bucket where it differs.
    """
    return _capped(list(accumulate(one.size_bytes for one in gradients)), cap, first)


def ddp_default(gradients: Sequence[Gradient]) -> list[int]:
    """Return the split of DistributedDataParallel with its default settings."""
    return capped(gradients, DDP_CAP, DDP_FIRST)


def compared(gradients: Sequence[Gradient], link: Link) -> list[tuple[str, Split]]:
    """Return the splits that people choose by hand, with their tails."""
    named = {
        "one bucket": one_bucket(gradients),
        "one bucket a gradient": per_tensor(gradients),
        "DDP's default, 25 MiB": ddp_default(gradients),
    }
    return [(name, evaluated(gradients, link, ends)) for name, ends in named.items()]


def best_cap(gradients: Sequence[Gradient], link: Link) -> tuple[int, Split]:
    """Return the one cap in bytes, for all buckets, with the smallest tail and the fewest buckets, and its split.

    Tried are the sizes of every first bucket, and the total in up to `MOST_PARTS` equal parts.
    """
    sums = list(accumulate(one.size_bytes for one in gradients))
    ready = [one.ready_ns * 1e-9 for one in gradients]
    caps = sorted({*sums, *(-(-sums[-1] // parts) for parts in range(1, min(len(sums), MOST_PARTS) + 1))})
    found = [(cap, ends, _tail(sums, ready, link, ends)) for cap in caps for ends in [_capped(sums, cap, None)]]
    least = min(tail for _, _, tail in found)
    cap, ends, tail = min((one for one in found if one[2] <= least + TIE_S), key=lambda one: (len(one[1]), one[2]))
    return cap, Split(ends=tuple(ends), tail_s=tail)


def _capped(sums: Sequence[int], cap: float, first: float | None) -> list[int]:
    ends: list[int] = []
    before, limit, last = 0, cap if first is None else first, len(sums) - 1
    while not ends or ends[-1] < last:
        start = ends[-1] + 1 if ends else 0
        ends.append(min(bisect_left(sums, max(before + limit, before + 1), start), last))
        before, limit = sums[ends[-1]], cap
    return ends


def _tail(sums: Sequence[int], ready: Sequence[float], link: Link, ends: Sequence[int]) -> float:
    arrived, before = 0.0, 0
    for end in ends:
        arrived = max(arrived, ready[end]) + link.seconds(sums[end] - before)
        before = sums[end]
    return arrived - ready[-1]
