"""JM430 format-conversions.

## What it does
Adds up the kernels that only change the format or the dtype of a tensor (TransData, Cast, Transpose of formats), and
counts those whose opposite follows: 5HD to ND and back, float16 to float32 and back.

## Why it matters
They calculate nothing. A pair that cancels is the price of one operator in between that takes another format or dtype:
the finding names the operators around it, which forced it.

## Example
```python
x = conv(x).float().sum(1).half()
```

## Use instead
```python
x = conv(x).sum(1)
```
Keep one dtype along a path; operators with private formats in a row need no conversion between them.

## Fix safety
No edit is made.

## References
The vendor's guides: TransData and Cast as bottlenecks of the framework; formats ND, NCHW, NC1HWC0, FRACTAL_NZ.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.causes import NOT_KNOWN, causes
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM430",
    name="format-conversions",
    summary="Kernels that only change formats or dtypes take a share of the step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True
_WORDS = ("transdata", "cast", "format_contiguous", "npu_format_cast")


def find(profile: Profile) -> Outcomes:
    """Yield one finding when conversions fill a share of the steps."""
    timeline = profile.timeline
    if not (timeline.of(Kind.KERNEL) & timeline.on("device")).any():
        yield not_checked(RULE, "the timeline has no kernels of a device.")
        return
    mask = profile.named(*_WORDS, kinds=[Kind.KERNEL])
    positions = profile.inside(mask)
    spans = profile.spans(positions)
    if profile.share(spans) < profile.thresholds.of("JM430", "share"):
        return
    around, num_pairs = _around(profile, mask)
    spent = profile.per_step_ms(spans.total_ns)
    between = around.most_common(1)[0][0] if around else ""
    paired = f"; {num_pairs:,} of them undo one that went before, around {between}" if between else ""
    ranked = [one for one in causes(profile, positions) if one.operator != NOT_KNOWN]
    named = ", ".join(f"{one.operator} ({profile.per_step_ms(one.nanoseconds):,.2f} ms)" for one in ranked[:3])
    forced = f" Most are forced by {named}." if named else ""
    finding = RULE.finding(
        f"{len(positions):,} kernels only change formats or dtypes: {spent:,.2f} ms a step, "
        f"{percent_text(profile.share(spans))} of it{paired}.{forced}",
        where=Location(operator=between or None),
        evidence={
            "kernels": len(positions),
            "undone": num_pairs,
            "ms_per_step": round(spent, 3),
            "between": between,
            "forced_by": {
                f"{one.operator} {one.line}".strip(): round(profile.per_step_ms(one.nanoseconds), 4)
                for one in ranked[:8]
            },
        },
        why="They calculate nothing: an operator beside them takes another format or dtype.",
        action=(f"Look at {between}: it takes another format or dtype than its neighbours. " if between else "")
        + "Keep one dtype along a path.",
    )
    yield profile.priced(finding, spans)


def _around(profile: Profile, mask: np.ndarray) -> tuple[Counter[str], int]:
    """Return which kernels stand between a conversion and its opposite on the same stream, and how many opposites."""
    timeline = profile.timeline
    kernels = profile.inside(timeline.of(Kind.KERNEL))
    found: Counter[str] = Counter()
    types = profile.kernel_types
    for lane in np.unique(timeline.events.lane[kernels]):
        row = kernels[timeline.events.lane[kernels] == lane]
        converts = mask[row]
        marks = np.flatnonzero(converts)
        for before, after in pairwise(marks):
            if 1 < after - before <= 3 and _is_opposite(profile, int(row[before]), int(row[after])):
                found[types[timeline.events.name[row[before + 1]]]] += 1
    return found, sum(found.values())


def _is_opposite(profile: Profile, first: int, second: int) -> bool:
    """Tell whether the second conversion goes from what the first made back to what it had, as far as is recorded."""
    details = [profile.timeline.detail_of(position) for position in (first, second)]
    ends = [dict(detail.more) if detail is not None else {} for detail in details]
    for kind in ("Formats", "Data Types"):
        made, had = ends[0].get(f"Output {kind}"), ends[0].get(f"Input {kind}")
        if made and had and made != had:
            return ends[1].get(f"Input {kind}") == made and ends[1].get(f"Output {kind}") == had
    return False
