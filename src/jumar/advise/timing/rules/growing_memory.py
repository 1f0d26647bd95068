"""JM471 growing-memory.

## What it does
Compares the memory in use at the end of each step, on the host and on each device, and says by how much it grows from
step to step.

## Why it matters
What is kept from every step ends the run by the hour: losses with their graph, outputs in a list, a cache by shape.

## Example
```python
losses.append(loss)  # keeps the graph of every step
```

## Use instead
```python
losses.append(loss.detach())
```

## Fix safety
No edit is made.

## References
PyTorch's FAQ: "My model reports out of memory", do not accumulate history across the training loop.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.memory import at_step_ends
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.base.text.sizes import MIB, size_text

RULE = Rule(
    code="JM471",
    name="growing-memory",
    summary="Memory in use grows from step to step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
LEAST_STEPS = 4
USED = ("memory", "allocated")
"""Counters of what is in use; what an allocator has reserved may grow while it finds its size."""


def find(profile: Profile) -> Outcomes:
    """Yield one finding for each memory that grows in nearly every step."""
    counters = [one for one in profile.timeline.counters if one.unit == "bytes" and one.name.startswith(USED)]
    if not counters or len(profile.judged) < LEAST_STEPS:
        what = "no memory in use over time" if not counters else f"fewer than {LEAST_STEPS} steps after the first"
        yield not_checked(RULE, f"the timeline has {what}; `jumar profile --memory` notes it.")
        return
    for counter in counters:
        ends = at_step_ends(counter, profile.judged)
        ends = ends[~np.isnan(ends)]
        grown = np.diff(ends)
        if len(grown) < LEAST_STEPS - 1:
            continue
        each = float(np.median(grown))
        rises = float((grown > 0).mean())
        if rises < profile.thresholds.of("JM471", "steps") or each < MIB * profile.thresholds.of("JM471", "least_mib"):
            continue
        yield RULE.finding(
            f"{counter.name} grows by {size_text(each)} a step, in {int((grown > 0).sum())} of {len(grown)} steps: "
            f"from {size_text(float(ends[0]))} to {size_text(float(ends[-1]))}.",
            where=Location(step=profile.judged[0].number),
            evidence={"counter": counter.name, "grows_bytes_per_step": round(each),
                      "first_bytes": round(float(ends[0])), "last_bytes": round(float(ends[-1]))},
            why="What is kept from every step fills the memory in the end.",
            action="Look for outputs and losses that are kept with their graph: `loss.detach()` or `loss.item()`.",
            confidence="likely",
        )  # fmt: skip
