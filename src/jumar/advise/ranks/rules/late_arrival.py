"""JM441 late-arrival.

## What it does
Matches the collectives of all ranks call by call, aligns the clocks of the ranks by the ends of these calls, and names
the rank that comes last to most of them: by how much, and to which calls.

## Why it matters
A collective begins when its last rank comes. All others wait so long in it, and their profiles call that communication.

## Example
```python
for batch in loader:
    if rank == 3:
        log_images(batch)  # the other ranks wait in the next all-reduce
    loss = step(batch)
```

## Use instead
Move the work to a thread or do it every hundredth step. Where the rank has more data than the others, share it out
evenly; where its host is slow, look at that machine.

## Fix safety
No edit is made.

## References
PyTorch's flight recorder and HolisticTraceAnalysis match collectives in the same way: by group and order.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from jumar.advise.bottlenecks.run import PRICE
from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.ranks.arrivals import Arrivals
from jumar.advise.ranks.outlier import stands_out, too_few
from jumar.advise.ranks.ranks import Ranks
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM441",
    name="late-arrival",
    summary="One rank comes late to the collectives.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(ranks: Ranks) -> Outcomes:
    """Yield one finding about the rank that comes last to most calls, where the others wait for it."""
    matched = ranks.arrivals
    if matched is None:
        yield not_checked(RULE, "no two ranks have steps with collectives in common.")
        return
    steps, calls = sorted(set(matched.steps)), len(matched.operations)
    if why := too_few(len(matched.ranks), len(steps)):
        yield not_checked(RULE, why)
        return
    waits = np.array([[matched.caused_ms(row, step) for step in steps] for row in range(len(matched.ranks))])
    index = int(np.argmax(waits.sum(axis=1)))
    caused = float(waits[index].mean())
    own = ~np.isnan(matched.starts_ms[index])
    last = float((matched.last[0][own] == index).mean())
    least = max(ranks.thresholds.of("JM441", "least_ms"), _share_ms(ranks))
    if caused < least or last < ranks.thresholds.of("JM441", "calls"):
        return
    if not stands_out(waits, index):
        return  # ranks come last by turns
    late = float(np.median((matched.last[2] - matched.last[1])[matched.last[0] == index]))
    if matched.uncertain_ms > late / 2:
        reason = f"clocks can be aligned to {matched.uncertain_ms:,.2f} ms only, and a call is late by {late:,.2f} ms."
        yield not_checked(RULE, reason)
        return
    operation, step = _worst(matched, index)
    rank = matched.ranks[index]
    yield RULE.finding(
        f"Rank {rank} comes last to {percent_text(last)} of the {calls:,} collectives that were "
        f"matched; for it alone the others wait {caused:,.1f} ms a step, most before {operation}.",
        where=Location(step=step),
        evidence={"rank": rank, "waits_ms_per_step": round(caused, 3), "last_share": round(last, 4),
                  "operation": operation, "calls_matched": matched.num_matched, "calls": matched.num_calls,
                  "clocks_uncertain_ms": round(matched.uncertain_ms, 4),
                  "saves_at_most_ms_per_step": round(caused, 3), PRICE: round(1000 * caused, 1)},
        why="A collective begins when its last rank comes; the others show the time as communication.",
        action=f"Look at what rank {rank} does before {operation} in step {step}, and at its host.",
    )  # fmt: skip


def _share_ms(ranks: Ranks) -> float:
    """Return the share of a step from which on a wait is worth a finding, in milliseconds."""
    lengths = [one.steady["step"].median_ns / 1e6 for one in ranks.decompositions if one.steady]
    return ranks.thresholds.of("JM441", "share") * float(np.median(lengths)) if lengths else 0.0


def _worst(matched: Arrivals, index: int) -> tuple[str, int]:
    """Return the operation before which the rank keeps the others waiting longest in all, and the worst step."""
    rows, before, own = matched.last
    caused = np.where(rows == index, own - before, 0.0)
    sums: dict[str, float] = defaultdict(float)
    for operation, wait in zip(matched.operations, caused.tolist(), strict=True):
        sums[operation] += wait
    return max(sums, key=sums.__getitem__), matched.steps[int(np.argmax(caused))]
