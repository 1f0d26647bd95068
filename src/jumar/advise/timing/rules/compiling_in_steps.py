"""JM424 compiling-in-steps.

## What it does
Adds up the compiling in the steps after the first: graphs of `torch.compile`, operators that the NPU's runtime
compiles online. Where the profile has the reason or the shapes, it names what changed.

## Why it matters
Compiling belongs to the first step. Later it means that something the compiler took for fixed has changed, mostly a
shape: every new one costs from a fraction of a second to minutes.

## Example
```python
for images in loader:  # the last batch is smaller
    compiled(images)
```

## Use instead
```python
loader = DataLoader(dataset, batch_size=64, drop_last=True)
```
Pad sequences to a few lengths, or mark the dimension as dynamic (`torch._dynamo.mark_dynamic`).

## Fix safety
No edit is made.

## References
PyTorch's documentation on dynamic shapes and recompilation; the vendor's guide on dynamic shapes.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile, outermost
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM424",
    name="compiling-in-steps",
    summary="Something is still compiled after the first step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when compiling takes a share of the steps after the first."""
    if len(profile.windows) < 2:
        yield not_checked(RULE, "needs a step after the first.")
        return
    mask = profile.timeline.of(Kind.COMPILE)
    spans = profile.spans(mask)
    if profile.share(spans) < profile.thresholds.of("JM424", "share"):
        return
    positions = outermost(profile.timeline.events, profile.inside(mask))
    (name, _, _), *_ = profile.by_name(positions) if len(positions) else [("", 0, 0)]
    details = [detail for i in positions if (detail := profile.timeline.detail_of(int(i))) is not None]
    reason = next((text for detail in details for key, text in detail.more if key == "reason"), "")
    steps = sum(bool(spans.clip(step.start_ns, step.end_ns).total_ns) for step in profile.judged)
    finding = RULE.finding(
        f"{len(positions)} compiles in {steps} of the {len(profile.judged)} steps after the first take "
        f"{spans.total_ns / 1e6:,.0f} ms, {percent_text(profile.share(spans))} of their time"
        + (f": {reason}." if reason else f" (most of it {name})." if name else "."),
        where=Location(step=profile.judged[0].number),
        evidence={"compiles": len(positions), "ms": round(spans.total_ns / 1e6, 3), "steps": steps, "reason": reason},
        why="What was compiled fits no longer: mostly a shape has changed.",
        action="Keep shapes the same (drop_last, padding to few lengths), or mark what changes as dynamic.",
    )
    yield profile.priced(finding, spans)
