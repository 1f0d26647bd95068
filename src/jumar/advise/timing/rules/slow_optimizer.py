"""JM433 slow-optimizer.

## What it does
Measures the optimizer's step and counts the operators it starts.

## Why it matters
An optimizer that goes from parameter to parameter starts several operators for each. A fused or foreach form does the
same numbers in a few: with many small parameters it is several times as fast.

## Example
```python
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
```

## Use instead
```python
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
```
On Ascend: `torch_npu.optim.NpuFusedAdamW`.

## Fix safety
`foreach` gives the same bits; `fused` differs in the last digits.

## References
PyTorch's documentation of `torch.optim`, on implementations.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import number_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile, outermost
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM433",
    name="slow-optimizer",
    summary="The optimizer's step starts many operators and takes a share of the step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when the optimizer takes a share of the steps and starts many operators."""
    mask = profile.named("optimizer.step", kinds=[Kind.RANGE])
    if not mask.any():
        yield not_checked(RULE, "the timeline has no optimizer's step.")
        return
    timeline = profile.timeline
    steps, spans = profile.inside(mask), profile.spans(mask)
    operators = profile.inside(timeline.of(Kind.OPERATOR))
    started = outermost(timeline.events, operators[spans.hold(timeline.events.start_ns[operators])])
    rate = len(started) / max(len(steps), 1)
    if profile.share(spans) < profile.thresholds.of("JM433", "share"):
        return
    if rate < profile.thresholds.of("JM433", "operators"):
        return
    starts = profile.of_events(started) & spans
    name, spent = timeline.name_of(int(steps[0])), profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"{name} starts {number_text(rate)} operators an update and takes {spent:,.1f} ms a step, "
        f"{percent_text(profile.share(spans))} of it.",
        where=Location(phase="optimizer"),
        evidence={"operators_per_update": round(rate, 1), "ms_per_step": round(spent, 3),
                  "in_operators_ms_per_step": round(profile.per_step_ms(starts.total_ns), 3)},
        why="It goes from parameter to parameter, a few operators each.",
        action="Use its fused form (`fused=True`, NpuFused… on Ascend), or `foreach=True`.",
    )  # fmt: skip
    yield profile.priced(finding, spans)
