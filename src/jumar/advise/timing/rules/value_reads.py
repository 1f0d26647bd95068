"""JM453 value-reads.

## What it does
Counts the operators of each step that bring a value to the host (`.item()`, `float(tensor)`, `nonzero`, a comparison
in an `if`, printing a tensor), and adds up how long the host waits in them.

## Why it matters
The host can go on only when the device has calculated the value: it starts nothing meanwhile, and the device runs dry
afterwards.

## Example
```python
for parameter in model.parameters():
    norms.append(parameter.grad.norm().item())
print(step, loss.item())
```

## Use instead
```python
norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
if step % 100 == 0:
    print(step, loss.item(), norm.item())
```

## Fix safety
No edit is made.

## References
PyTorch's tuning guide: avoid unnecessary synchronisation between host and device.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import at_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.products import base
from jumar.advise.timing.profile import Profile, outermost
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.operators.traits import has
from jumar.recording.schema import split_source
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM453",
    name="value-reads",
    summary="The host reads values of tensors in every step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding where reads of values are many, or the host waits long in them."""
    timeline = profile.timeline
    if not profile.has(Kind.OPERATOR):
        yield not_checked(RULE, "the timeline has no operators of PyTorch.")
        return
    reads = timeline.named(lambda name: has(name, "to_host")) & timeline.of(Kind.OPERATOR, Kind.WAIT)
    rows = outermost(timeline.events, profile.inside(reads))
    spans = profile.spans(rows)
    many = profile.rate(len(rows)) >= profile.thresholds.of("JM453", "reads")
    if not many and profile.share(spans) < profile.thresholds.of("JM453", "share"):
        return
    if profile.share(spans) < profile.thresholds.of("JM453", "least_share"):
        return
    source = profile.line_of(rows)
    path, line = split_source(source)
    waited = profile.per_step_ms(spans.total_ns)
    first = base(profile.by_name(rows)[0][0])
    finding = RULE.finding(
        f"The host reads {profile.rate(len(rows)):,.0f} values a step{at_text(source)}, most by {first}, and waits "
        f"{waited:,.2f} ms in them, {percent_text(profile.share(spans))} of the step.",
        where=Location(path=path, line=line, operator=profile.by_name(rows)[0][0]),
        evidence={"reads_per_step": round(profile.rate(len(rows)), 2), "waits_ms_per_step": round(waited, 3)},
        why="The host starts nothing until the value is there; the device runs dry afterwards.",
        action="Read a value every hundredth step, and many values at once (`torch.stack(values).tolist()`).",
    )
    yield profile.priced(finding, spans)
