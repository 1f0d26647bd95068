"""JM434 silent-gaps.

## What it does
Finds long stretches of the judged steps in which nothing that the profile records happens: no operator, no kernel, no
call of the runtime, no loading. It names what ran before the longest, and the Python function where stacks were taken.

## Why it matters
It is time of the program itself: Python code, reading and writing files, logging, `sleep`, garbage collection, or
waiting for another process. The device idles meanwhile.

## Example
```python
for batch in loader:
    loss = train_step(batch)
    writer.write(json.dumps(everything(model)))
```

## Use instead
```python
for step, batch in enumerate(loader):
    loss = train_step(batch)
    if step % 100 == 0:
        writer.write(json.dumps(everything(model)))
```

## Fix safety
No edit is made.

## References
The vendor's tuning guide: the gap between iterations.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind
from jumar.timeline.spans import Spans

RULE = Rule(
    code="JM434",
    name="silent-gaps",
    summary="Long stretches of the step in which nothing that was recorded happens.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
_FRAMES = (Kind.RANGE, Kind.PYTHON, Kind.STEP, Kind.OTHER)
"""Events that hold others: they say where the program is and not that anything happens."""


def find(profile: Profile) -> Outcomes:
    """Yield one finding when long gaps fill a share of the steps."""
    timeline = profile.timeline
    gaps = profile.time - profile.of_events(~timeline.of(*_FRAMES))
    long = (gaps.ends - gaps.starts) >= 1e6 * profile.thresholds.of("JM434", "gap_ms")
    gaps = Spans(gaps.starts[long], gaps.ends[long])
    if profile.share(gaps) < profile.thresholds.of("JM434", "share"):
        return
    longest = int(np.argmax(gaps.ends - gaps.starts))
    start, end = int(gaps.starts[longest]), int(gaps.ends[longest])
    spent = profile.per_step_ms(gaps.total_ns)
    frame, before = _frame(profile, start, end), _before(profile, start)
    told = (f", in {frame}" if frame else "") + (f", after {before}" if before else "")
    step = next((step.number for step in profile.judged if step.start_ns <= start < step.end_ns), None)
    finding = RULE.finding(
        f"{spent:,.1f} ms of each step, {percent_text(profile.share(gaps))}, pass without any event; the longest of "
        f"these {len(gaps):,} gaps takes {(end - start) / 1e6:,.1f} ms{told}.",
        where=Location(step=step),
        evidence={"ms_per_step": round(spent, 3), "gaps": len(gaps), "longest_ms": round((end - start) / 1e6, 3),
                  "function": frame, "after": before},
        why="The program itself works or waits, and the device idles.",
        action=(f"Look at {frame}. " if frame else "Profile with stacks to see the function. ")
        + "Log, save and evaluate less often, or in another thread.",
    )  # fmt: skip
    yield profile.priced(finding, gaps)


def _frame(profile: Profile, start: int, end: int) -> str:
    """Return the shortest Python function or named range that holds the gap; empty where none was recorded."""
    timeline, events = profile.timeline, profile.timeline.events
    holds = timeline.of(Kind.PYTHON, Kind.RANGE) & (events.start_ns <= start) & (events.end_ns >= end)
    found = np.flatnonzero(holds)
    return timeline.name_of(int(found[np.argmin(events.duration_ns[found])])) if len(found) else ""


def _before(profile: Profile, start: int) -> str:
    """Return the name of the last event that ended before the gap."""
    timeline, events = profile.timeline, profile.timeline.events
    found = np.flatnonzero(~timeline.of(*_FRAMES) & (events.end_ns <= start))
    return timeline.name_of(int(found[np.argmax(events.end_ns[found])])) if len(found) else ""
