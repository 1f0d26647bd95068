"""Which engine computes which block: the cheapest way through the blocks, borders included, by dynamic programming.

Blocks b₁ … bₙ follow each other, one value crosses each border. With m(k, e) the measured time of block k alone in
engine e, and w(k, e, f) what it costs to go from e to f at the border before block k,

    best(k, f) = m(k, f) + minₑ (best(k−1, e) + w(k, e, f))

w(k, e, e) is negative: two blocks in one region save a call and the conversions, and may be fused. Time O(n·E²).
This is Viterbi's algorithm (A. Viterbi, *Error bounds for convolutional codes*, 1967).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """All times in microseconds."""

    blocks: Sequence[Mapping[str, float]]
    """Time of each block by engine; an engine that is absent cannot compute it."""
    joined: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By engine, what joining block k to the one before saves (place 0 stands for nothing); absent: nothing."""
    switch: float = 0.0
    """What a border between two engines costs beyond what their blocks measured alone."""

    def border(self, block: int, before: str, after: str) -> float:
        """Return what it costs to go from engine to engine before a block."""
        if before != after:
            return self.switch
        saved = self.joined.get(after)
        return 0.0 if saved is None else -saved[block]

    def total(self, engines: Sequence[str]) -> float:
        """Return the time of one engine a block."""
        blocks = sum(block[engine] for block, engine in zip(self.blocks, engines, strict=True))
        pairs = enumerate(pairwise(engines), 1)
        return blocks + sum(self.border(place, before, after) for place, (before, after) in pairs)


def cheapest(costs: Costs) -> tuple[list[str], float] | None:
    """Return one engine a block with the least total, and the total; None when a block has no engine."""
    if not costs.blocks or not all(costs.blocks):
        return None
    best = {engine: (time, [engine]) for engine, time in costs.blocks[0].items()}
    for place, block in enumerate(costs.blocks[1:], 1):
        best = {
            engine: min(
                (total + costs.border(place, before, engine) + time, [*path, engine])
                for before, (total, path) in best.items()
            )
            for engine, time in block.items()
        }
    total, path = min(best.values())
    return path, total


def runs(engines: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return neighbours of one engine as (first block, one past the last, engine)."""
    found: list[tuple[int, int, str]] = []
    for place, engine in enumerate(engines):
        if found and found[-1][2] == engine:
            found[-1] = (found[-1][0], place + 1, engine)
        else:
            found.append((place, place + 1, engine))
    return found
