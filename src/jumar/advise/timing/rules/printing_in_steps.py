"""JM454 printing-in-steps.

## What it does
Adds up the time of Python's printing, logging, progress bars and writers of metrics in each step, where the profile has
Python's functions (`jumar profile --stacks`).

## Why it matters
A terminal, a network log or a slow disk takes milliseconds a line. The device waits for the next step meanwhile.

## Example
```python
print(f"step {step} loss {loss.item():.4f}")
writer.add_histogram("weights", weights, step)
```

## Use instead
Print and write every hundredth step.

## Fix safety
No edit is made.

## References
PyTorch's tuning guide.
"""

from __future__ import annotations

import re

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile, outermost
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.recording.schema import split_source
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM454",
    name="printing-in-steps",
    summary="Printing and logging take a share of the steps.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
WRITES = re.compile(
    r"<built-in function print>|<built-in method (write|flush) of _io\."
    r"|(^|/)(logging/__init__|loguru/_logger|tqdm/std|rich/(progress|console|live))\.py\(\d+\)"
    r"|(^|/)(tensorboard|tensorboardX|wandb|mlflow|swanlab)/.*\.py\(\d+\)"
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding where printing fills a share of the steps."""
    timeline = profile.timeline
    if not profile.has(Kind.PYTHON):
        yield not_checked(RULE, "the timeline has no Python functions; `jumar profile --stacks` notes them.")
        return
    rows = outermost(timeline.events, profile.inside(timeline.named(WRITES.search) & timeline.of(Kind.PYTHON)))
    spans = profile.spans(rows)
    if profile.share(spans) < profile.thresholds.of("JM454", "share"):
        return
    source = profile.line_of(rows)
    path, line = split_source(source)
    spent = profile.per_step_ms(spans.total_ns)
    name = profile.by_name(rows)[0][0]
    finding = RULE.finding(
        f"Printing and logging take {spent:,.2f} ms a step, {percent_text(profile.share(spans))} of it, in "
        f"{profile.rate(len(rows)):,.1f} calls; most in {name}.",
        where=Location(path=path, line=line),
        evidence={"calls_per_step": round(profile.rate(len(rows)), 2), "ms_per_step": round(spent, 3), "most_in": name},
        why="The device waits for the next step meanwhile.",
        action="Print and write every hundredth step, or in another thread.",
    )
    yield profile.priced(finding, spans)
