"""JM440 slow-rank.

## What it does
Compares how long each rank works in a step, its waiting for communication and for its device left out, and names the
rank that the others wait for: since which step, and what takes longer there.

## Why it matters
A synchronous step ends when its slowest rank ends. The others show the time as communication, which it is not.

## Example
```python
sampler = DistributedSampler(data, shuffle=False)  # the long samples all go to one rank
```

## Use instead
```python
sampler = DistributedSampler(data, shuffle=True)
```
Where the machine is the cause (clock, a neighbour on its cores, a slow disk), look at that host: `jumar doctor`.

## Fix safety
No edit is made.

## References
The vendor's guide to slow ranks and slow links in a cluster.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.run import PRICE
from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.ranks.outlier import stands_out, too_few
from jumar.advise.ranks.ranks import WAITS, Ranks
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM440",
    name="slow-rank",
    summary="The other ranks wait for one.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(ranks: Ranks) -> Outcomes:
    """Yield one finding about the rank that works longest, when the others wait for it."""
    if len(ranks.steps) < 2 or len(ranks.compared) < 2:
        yield not_checked(RULE, "needs two steps after the first that all ranks have.")
        return
    if why := too_few(len(ranks.compared), len(ranks.steps)):
        yield not_checked(RULE, why)
        return
    own = np.median(ranks.own_ms, axis=1)
    slow = int(np.argmax(own))
    others = np.delete(np.arange(len(own)), slow)
    usual = float(np.median(own[others]))
    extra = float(own[slow]) - usual
    waits = float(np.median(ranks.part_ms(*WAITS)[others]))
    least = max(ranks.thresholds.of("JM440", "share") * usual, ranks.thresholds.of("JM440", "least_ms"))
    if extra < least or waits < extra / 2 or float(own[others].max()) > usual + extra / 2:
        return  # several slow ranks have uneven work: JM444
    if not stands_out(ranks.own_ms, slow):
        return  # no more than noise between so few steps
    part, grown = _grown(ranks, slow, others)
    since = _since(ranks, slow, others, extra)
    rank = ranks.numbers[slow]
    yield RULE.finding(
        f"Rank {rank} works {own[slow]:,.1f} ms a step where the others work {usual:,.1f}, "
        f"{percent_text(extra / usual)} longer, since step {since}. {_others(len(others))} {waits:,.1f} ms "
        f"a step. Most of it is {part} (+{grown:,.1f} ms).",
        where=Location(step=since),
        evidence={"rank": rank, "own_ms": round(float(own[slow]), 3), "usual_ms": round(usual, 3),
                  "others_wait_ms": round(waits, 3), "part": part, "saves_at_most_ms_per_step": round(extra, 3),
                  PRICE: round(1000 * extra, 1)},
        why="A step ends when its slowest rank ends; on the others the time looks like communication.",
        action=f"Look at {part} on rank {rank}, and at its host.",
    )  # fmt: skip


def _others(number: int) -> str:
    return "The other rank waits" if number == 1 else f"The other {number:,} ranks wait"


def _grown(ranks: Ranks, slow: int, others: np.ndarray) -> tuple[str, float]:
    """Return the part that is longer on the slow rank by most, and by how many milliseconds."""
    parts = [part for part in ranks.compared[slow].words if part not in WAITS]
    medians = {part: np.median(ranks.part_ms(part), axis=1) for part in parts}
    grown = {part: float(one[slow] - np.median(one[others])) for part, one in medians.items()}
    part = max(grown, key=grown.__getitem__)
    return part, grown[part]


def _since(ranks: Ranks, slow: int, others: np.ndarray, extra: float) -> int:
    """Return the first step from which on the rank is slower than the others by half of that, step for step."""
    ahead = ranks.own_ms[slow] - np.median(ranks.own_ms[others], axis=0)
    usual = np.flatnonzero(ahead < extra / 2)
    last = int(usual[-1]) + 1 if len(usual) else 0
    return ranks.steps[last] if last < len(ranks.steps) else ranks.steps[int(np.argmax(ahead))]
