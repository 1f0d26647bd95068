"""JM410 step-gap.

## What it does
Compares the host time before the model is first called in a step (operators on the device in between, such as
reading the last loss, are left out) with the host time of the step's operators, over all steps but the first
recorded one, and reports when it is a tenth or more of both together, with its least and greatest value.

## Why it matters
Before that call the program waits for its batch: reading, decoding, augmenting, collating. It is the
time of the host, not of the device, so a fast NPU does not shorten it: it is a floor under the step time. A
gap that swings means that the loader's queue runs empty.

## Example
```python
loader = DataLoader(dataset, batch_size=256)
```

## Use instead
```python
loader = DataLoader(dataset, batch_size=256, num_workers=8, pin_memory=True, persistent_workers=True)
```
Decode and resize once beforehand; keep heavy augmentation off the main process.

## Fix safety
No edit is made.

## References
The vendor's tuning guide: "a long gap between iterations comes from data", and "the queue goes from full to
empty". Times are host times of the recorded run: of operators on the CPU where the NPU is emulated, so the
share on a real NPU is greater, not smaller.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Run
from jumar.advise.bottlenecks.summary import wait_us
from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM410",
    name="step-gap",
    summary="The step waits for its data before it starts.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

MIN_SHARE = 0.1
ADVICE_SHARE = 0.3
"""Below this it is information only: host times swing with the machine's load."""
MIN_GAP_US = 1000.0
"""A shorter gap is Python between two steps."""


def find(run: Run) -> Outcomes:
    """Yield one finding when the wait before the model is a large share of the step."""
    steps: list[int] = []
    gaps_us: list[float] = []
    work_us: list[float] = []
    for step in run.steps:
        steps.append(step.step)
        gaps_us.append(wait_us(step, run))
        work_us.append(sum(call.row.duration_us for call in step.calls if run.on_device(call)))
    if not run.totals.has_times:
        yield not_checked(RULE, "the recording has no times of its calls.")
    elif not any(gaps_us):
        reason = "the recorded steps begin with their first call, so a wait before it cannot be seen."
        yield not_checked(RULE, reason)
    elif len(gaps_us) < 2:
        reason = "needs a step after the first recorded one (which includes set-up); record --steps 0:3."
        yield not_checked(RULE, reason)
    else:
        yield from _weighed(run, steps, gaps_us, work_us)


def _weighed(run: Run, steps: Sequence[int], gaps_us: Sequence[float], work_us: Sequence[float]) -> Iterator[Finding]:
    gap, work = statistics.median(gaps_us[1:]), statistics.median(work_us[1:])
    part = gap / (gap + work)
    if part < MIN_SHARE or gap < MIN_GAP_US:
        return
    finding = RULE.finding(
        f"{gap / 1000:,.1f} ms of each step pass before the model is called, {percent_text(part)} of that and the "
        "operators' host time together (host time of the recorded run).",
        where=Location(step=steps[1]),
        evidence={
            "gap_us": round(gap, 1),
            "operator_us": round(work, 1),
            "gap_percent": round(100 * part, 1),
            "greatest_gap_us": round(max(gaps_us[1:]), 1),
            "least_gap_us": round(min(gaps_us[1:]), 1),
            "first_gap_us": round(gaps_us[0], 1),
            "num_steps": len(gaps_us) - 1,
        },
        why="The host causes this wait. A faster NPU does not shorten it: no step can be faster than the wait.",
        action="Load in worker processes (`num_workers`, `persistent_workers`, `pin_memory`), prepare data "
        "beforehand, and look at what runs between two steps.",
        severity=None if part >= ADVICE_SHARE else Severity.INFO,
        confidence="likely",
    )
    yield run.priced(finding, Cost(host_us=gap))
