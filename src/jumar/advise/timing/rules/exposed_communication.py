"""JM431 exposed-communication.

## What it does
Measures how long collectives run while the device calculates nothing (exposed), and how long they are hidden behind
calculation.

## Why it matters
Hidden communication is free. The exposed part is waiting: for the network, or for a slower rank.

## Example
```python
model = DistributedDataParallel(model, bucket_cap_mb=1000)
```

## Use instead
```python
model = DistributedDataParallel(model)
```
Let gradients be reduced while the backward pass goes on: `jumar tune --job-type 4` solves for the best buckets.

## Fix safety
No edit is made.

## References
PyTorch's DistributedDataParallel; the vendor's guide on splitting the all-reduce.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM431",
    name="exposed-communication",
    summary="Steps wait for communication between ranks.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when exposed collectives fill a share of the steps."""
    timeline = profile.timeline
    mask = timeline.of(Kind.COLLECTIVE)
    if not mask.any():
        yield not_checked(RULE, "the timeline has no communication between ranks.")
        return
    has_device = bool((timeline.of(Kind.KERNEL) & timeline.on("device")).any())
    side = timeline.on("device") if has_device else timeline.on("host")
    works = profile.spans(timeline.of(Kind.KERNEL if has_device else Kind.OPERATOR) & side & ~mask)
    communicates = profile.spans(mask)
    exposed = communicates - works
    if profile.share(exposed) < profile.thresholds.of("JM431", "share"):
        return
    rows = profile.by_name(profile.inside(mask))
    spent = profile.per_step_ms(exposed.total_ns)
    finding = RULE.finding(
        f"{spent:,.1f} ms of each step, {percent_text(profile.share(exposed))}, only wait for communication; "
        f"{profile.per_step_ms(communicates.total_ns) - spent:,.1f} ms of it are hidden behind calculation. Most of it "
        f"is {rows[0][0]}.",
        where=Location(operator=rows[0][0]),
        evidence={"exposed_ms_per_step": round(spent, 3),
                  "communication_ms_per_step": round(profile.per_step_ms(communicates.total_ns), 3)},
        why="The device calculates nothing meanwhile.",
        action="Overlap it with the backward pass (`jumar tune --job-type 4`), and look for a slow rank or link.",
    )  # fmt: skip
    yield profile.priced(finding, exposed)
