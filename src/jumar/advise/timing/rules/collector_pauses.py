"""JM423 collector-pauses.

## What it does
Adds up the pauses of Python's garbage collector in the judged steps and names the longest.

## Why it matters
The collector stops the thread that starts the device's work. Full collections walk every object of the program: with
millions of them (cached samples, graphs of Python objects) a pause takes long, and it comes at any moment.

## Example
```python
for batch in loader:
    train_step(batch)
    gc.collect()
```

## Use instead
```python
gc.collect()
gc.freeze()
for batch in loader:
    train_step(batch)
```

## Fix safety
No edit is made. `gc.freeze()` keeps what exists at that moment out of later collections.

## References
Python's documentation of `gc.freeze` and of the generations.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import number_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM423",
    name="collector-pauses",
    summary="Python's garbage collector stops the program in the steps.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when the collector's pauses are a share of the steps, or one is long."""
    mask = profile.timeline.of(Kind.COLLECTOR)
    if not mask.any():
        yield not_checked(RULE, "the timeline does not say when Python's collector ran; `jumar profile` notes it.")
        return
    positions, spans = profile.inside(mask), profile.spans(mask)
    longest = max((int(profile.timeline.events.duration_ns[i]) for i in positions), default=0) / 1e6
    is_long = longest >= profile.thresholds.of("JM423", "pause_ms")
    if not is_long and profile.share(spans) < profile.thresholds.of("JM423", "share"):
        return
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"Python's garbage collector takes {spent:,.2f} ms a step, {percent_text(profile.share(spans))}: "
        f"{number_text(profile.rate(len(positions)))} pauses a step, the longest {longest:,.1f} ms.",
        where=Location(step=profile.judged[0].number),
        evidence={"ms_per_step": round(spent, 3), "pauses": len(positions), "longest_ms": round(longest, 3)},
        why="It stops the thread that starts the device's work.",
        action="Collect and freeze before the loop (`gc.collect(); gc.freeze()`), and keep fewer Python objects alive.",
    )
    yield profile.priced(finding, spans)
