"""JM472 memory-from-device.

## What it does
Counts the calls of the driver that take memory from the device or give it back (`cudaMalloc`, `aclrtFree` …) in the
steps after the first, and adds up their time.

## Why it matters
PyTorch's allocator keeps memory so that steps need no call of the driver. Where shapes change, memory is short or
`empty_cache()` is called, each step asks again, and the host waits for the device each time.

## Example
Sequences of another length in each batch: blocks of the last step do not fit, and are given back.

## Use instead
Pad to a few lengths, set `expandable_segments:True` in the allocator's settings, and take out `empty_cache()`.

## Fix safety
No edit is made.

## References
PyTorch's notes on memory management; PYTORCH_CUDA_ALLOC_CONF, PYTORCH_NPU_ALLOC_CONF.
"""

from __future__ import annotations

import re

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM472",
    name="memory-from-device",
    summary="Steps take memory from the driver and give it back.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
NEEDS_DEVICE = True
CALLS = re.compile(
    r"(cuda|hip)(Malloc|Free)(?!Host|Async|Managed)|cu(Mem(Create|Release|Map|Unmap|Alloc|Free))(?!Host|Async)"
    r"|aclrt(Malloc|Free)(?!Host)|aclrt(Map|Unmap)Mem"
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding where such calls fill a share of the steps."""
    timeline = profile.timeline
    if not profile.has(Kind.RUNTIME):
        yield not_checked(RULE, "the timeline has no calls of a device's runtime.")
        return
    rows = profile.inside(timeline.named(CALLS.match) & timeline.of(Kind.RUNTIME, Kind.WAIT))
    spans = profile.spans(rows)
    if profile.share(spans) < profile.thresholds.of("JM472", "share"):
        return
    name = profile.by_name(rows)[0][0]
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"{profile.rate(len(rows)):,.1f} calls a step take memory from the driver or give it back ({name}): "
        f"{spent:,.2f} ms, {percent_text(profile.share(spans))} of the step.",
        where=Location(operator=name),
        evidence={"calls_per_step": round(profile.rate(len(rows)), 2), "ms_per_step": round(spent, 3)},
        why="The host waits for the device in each of them; a step that finds its blocks needs none.",
        action="Keep shapes the same or pad to a few, set expandable_segments:True, take out `empty_cache()`.",
    )
    yield profile.priced(finding, spans)
