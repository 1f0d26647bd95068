"""JM428 launch-bound.

## What it does
Measures how much of the judged steps the device is idle while the host is busy, and the median length of its kernels.

## Why it matters
Where kernels are shorter than their launch, the host is the bottleneck and the device waits for it: a faster device
changes nothing.

## Example
```python
for row in range(len(batch)):
    out[row] = batch[row] * scale[row]
```

## Use instead
```python
out = batch * scale[:, None]
```
Larger batches, fused operators and optimizers, `torch.compile` with graphs (`reduce-overhead`), fewer Python objects
between two launches.

## Fix safety
No edit is made.

## References
PyTorch's documentation on CUDA graphs; the vendor's guide on the queue of tasks (`TASK_QUEUE_ENABLE`).
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM428",
    name="launch-bound",
    summary="The device waits for the host to start its kernels.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True


def find(profile: Profile) -> Outcomes:
    """Yield one finding when the device idles for a large share while its kernels are short."""
    timeline = profile.timeline
    kernels = timeline.of(Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE) & timeline.on("device")
    if not kernels.any():
        yield not_checked(RULE, "the timeline has no device's side.")
        return
    host_works = profile.spans(timeline.of(Kind.OPERATOR, Kind.RUNTIME, Kind.PYTHON) & timeline.on("host"))
    others = profile.spans(timeline.of(Kind.DATA, Kind.COMPILE, Kind.COLLECTOR))
    idle = (host_works - profile.spans(kernels)) - others
    positions = profile.inside(kernels)
    median_us = float(np.median(timeline.events.duration_ns[positions])) / 1000 if len(positions) else 0.0
    if profile.share(idle) < profile.thresholds.of("JM428", "idle_share"):
        return
    if median_us > profile.thresholds.of("JM428", "kernel_us"):
        return
    spent = profile.per_step_ms(idle.total_ns)
    finding = RULE.finding(
        f"The device is idle for {spent:,.1f} ms of each step, {percent_text(profile.share(idle))}, while the host is "
        f"at work; its {profile.rate(len(positions)):,.0f} kernels a step take {median_us:,.1f} us in the median.",
        where=Location(step=profile.judged[0].number),
        evidence={"idle_ms_per_step": round(spent, 3), "kernels_per_step": round(profile.rate(len(positions)), 1),
                  "median_kernel_us": round(median_us, 2)},
        why="The host cannot start kernels as fast as the device ends them: a faster device changes nothing.",
        action="Fuse (operators, optimizer), batch more work into one call, or capture graphs.",
    )  # fmt: skip
    yield profile.priced(finding, idle)
