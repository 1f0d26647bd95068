"""JM456 strided-copies.

## What it does
Adds up the kernels that only make a tensor contiguous or move its elements (`ViewCopy`, `AsStrided`, `Transpose`,
copies that `contiguous()` starts), and names the operators and lines that start them.

## Why it matters
They calculate nothing. On an NPU a copy out of a strided view is slow: elements lie apart, and the vector unit reads a
few bytes of each block. The vendor's ShuffleNetV2 spent most of its forward pass in them.

## Example
```python
x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous()  # channel shuffle
first, second = x.chunk(2, dim=1)  # each half is a strided view, copied where it is used
```

## Use instead
```python
x = torch.index_select(x, 1, self.order)  # one operator that calculates the new order
```

## Fix safety
No edit is made.

## References
The vendor's migration guide, "Copy bottleneck"; the example of ShuffleNetV2.
"""

from __future__ import annotations

import re
from dataclasses import replace

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.causes import causes
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.recording.schema import split_source
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM456",
    name="strided-copies",
    summary="Kernels that only make tensors contiguous take a share of the step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True
KERNELS = re.compile(
    r"(ViewCopy|AsStrided|Transpose(D|V2)?|StridedSlice(D|V2)?|TensorMove|Contiguous|StridedSliceAssignD?)$"
    r"|.*direct_copy_kernel",
    re.IGNORECASE,
)
MOST_NAMED = 3


def find(profile: Profile) -> Outcomes:
    """Yield one finding when such kernels fill a share of the steps."""
    timeline = profile.timeline
    if not (timeline.of(Kind.KERNEL) & timeline.on("device")).any():
        yield not_checked(RULE, "the timeline has no kernels of a device.")
        return
    copies = replace(timeline, names=profile.kernel_types).named(KERNELS.match)
    rows = profile.inside(copies & timeline.of(Kind.KERNEL) & timeline.on("device"))
    spans = profile.spans(rows)
    if profile.share(spans) < profile.thresholds.of("JM456", "share"):
        return
    ranked = causes(profile, rows)
    named = ", ".join(f"{one.operator} ({profile.per_step_ms(one.nanoseconds):,.2f} ms)" for one in ranked[:MOST_NAMED])
    path, line = split_source(ranked[0].line)
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"{profile.rate(len(rows)):,.0f} kernels a step only make tensors contiguous: {spent:,.2f} ms, "
        f"{percent_text(profile.share(spans))} of the step. Most are started by {named}.",
        where=Location(path=path, line=line, operator=ranked[0].operator),
        evidence={"kernels_per_step": round(profile.rate(len(rows)), 2), "ms_per_step": round(spent, 3),
                  "started_by": {f"{one.operator} {one.line}".strip(): round(profile.per_step_ms(one.nanoseconds), 4)
                                 for one in ranked[:8]}},
        why="They calculate nothing; each is one of the slowest things an NPU does.",
        action="Take the copy out, or let one operator do the reordering (`index_select` for a channel shuffle).",
    )  # fmt: skip
    yield profile.priced(finding, spans)
