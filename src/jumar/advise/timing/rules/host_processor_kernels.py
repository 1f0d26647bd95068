"""JM429 host-processor-kernels.

## What it does
Adds up the kernels of an NPU that run on its general processors (AI CPU) and not on its matrix and vector units.

## Why it matters
AI CPU kernels are slower by orders of magnitude, and the units idle meanwhile. Mostly the dtype is the reason (int64,
float64, bool), or the operator has no other kernel.

## Example
```python
order = torch.argsort(scores.double())
```

## Use instead
```python
order = torch.argsort(scores.float())
```

## Fix safety
Another dtype may change results: compare them.

## References
The vendor's profiler (`Accelerator Core` of kernel_details.csv) and its lists of operators on AI CPU.
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
    code="JM429",
    name="host-processor-kernels",
    summary="Kernels run on the NPU's general processors.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True
CORE = "Accelerator Core"
"""The vendor's column that says which unit ran a kernel."""


def find(profile: Profile) -> Outcomes:
    """Yield one finding when kernels on AI CPU fill a share of the steps."""
    timeline = profile.timeline
    cores = [dict(detail.more).get(CORE, "") for detail in timeline.details]
    if not any(cores):
        yield not_checked(RULE, "the timeline does not say which unit of an NPU ran a kernel.")
        return
    general = np.fromiter((core.upper().replace("_", "") == "AICPU" for core in cores), bool, len(cores))
    mask = timeline.of(Kind.KERNEL) & (timeline.events.detail >= 0) & general[timeline.events.detail]
    positions = profile.inside(mask)
    spans = profile.spans(positions)
    if profile.share(spans) < profile.thresholds.of("JM429", "share"):
        return
    rows = profile.by_name(positions)
    worst = ", ".join(f"{name} ({count})" for name, count, _ in rows[:3])
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"{len(positions):,} kernels ran on AI CPU, {spent:,.2f} ms a step, {percent_text(profile.share(spans))} of "
        f"it: {worst}.",
        where=Location(operator=rows[0][0]),
        evidence={"kernels": len(positions), "ms_per_step": round(spent, 3)},
        why="The matrix and vector units idle while the chip's small processors calculate.",
        action=f"Give {rows[0][0]} a dtype that the units take (int32, float32, float16), or another operator.",
    )
    yield profile.priced(finding, spans)
