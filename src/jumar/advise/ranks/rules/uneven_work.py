"""JM444 uneven-work.

## What it does
Compares how long the ranks calculate in a step, where several ranks work longer than the others: stages of a pipeline,
experts, shares of a batch. It says what the step could save if the work were shared out evenly.

## Why it matters
The step takes as long as the ranks with most work. The others wait, which looks like communication.

## Example
```python
stages = [layers[:16], layers[16:32], layers[32:]]  # the last stage has the head and the loss as well
```

## Use instead
```python
stages = [layers[:17], layers[17:34], layers[34:]]
```
For experts: raise the weight of the loss that balances their load, or lower the capacity factor.

## Fix safety
No edit is made.

## References
Megatron-LM, uneven pipeline stages; Switch Transformers (Fedus et al., 2022), load balancing of experts.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.run import PRICE
from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.ranks.ranks import WAITS, Ranks
from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.timeline.collectives import POINT_TO_POINT

RULE = Rule(
    code="JM444",
    name="uneven-work",
    summary="Some ranks have more work than others.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(ranks: Ranks) -> Outcomes:
    """Yield one finding where two ranks or more work longer than the mean by a share of it."""
    if len(ranks.steps) < 2 or len(ranks.compared) < 4:
        yield not_checked(RULE, "needs four ranks with two steps after the first in common.")
        return
    own = np.median(ranks.own_ms, axis=1)
    mean = float(own.mean())
    longer = np.flatnonzero(own > mean * (1 + ranks.thresholds.of("JM444", "share")))
    extra = float(own.max()) - mean
    waits = float(np.median(np.delete(ranks.part_ms(*WAITS), longer, axis=0))) if len(longer) < len(own) else 0.0
    if len(longer) < 2 or extra < ranks.thresholds.of("JM444", "least_ms") or waits < extra / 2:
        return
    named = [str(ranks.numbers[index]) for index in longer]
    yield RULE.finding(
        f"{len(longer)} of {len(own)} ranks work up to {float(own.max()):,.1f} ms a step where all work {mean:,.1f} in "
        f"the mean, {percent_text(extra / mean)} longer: ranks {listing(named, 8)}. The others wait {waits:,.1f} ms.",
        evidence={"ranks": listing(named, 64), "longest_ms": round(float(own.max()), 3), "mean_ms": round(mean, 3),
                  "others_wait_ms": round(waits, 3), "saves_at_most_ms_per_step": round(extra, 3),
                  PRICE: round(1000 * extra, 1)},
        why="A step takes as long as the ranks with most work.",
        action=_action(ranks),
    )  # fmt: skip


def _action(ranks: Ranks) -> str:
    """Return what to do, by the kind of communication that the ranks have."""
    called = {operation for one in ranks.collectives for operation in one.operations}
    if called & POINT_TO_POINT:
        return "Give the stages of the pipeline the same work: move layers from the longer ones to the others."
    if "all_to_all" in called:
        return "Balance the load of the experts: its loss, the capacity factor, or where experts are placed."
    return "Share out the work evenly: the samples of a batch by length, the layers, the parts of the model."
