"""JM420 step-jitter.

## What it does
Compares the length of each step with the median of the steps after the first, and reports steps that are much
longer: which ones, how much time they cost together, and what ran longer in them than in a usual step.

## Why it matters
A median hides a stall of every third step, and such stalls are the mark of a loader whose queue runs empty, of a
checkpoint, of garbage collection or of a compile. The time of all of them together is what an epoch pays.

## Example
```python
if step % 3 == 0:
    torch.save(model.state_dict(), "latest.pth")
```

## Use instead
```python
if step % 1000 == 0:
    torch.save(model.state_dict(), "latest.pth")
```
Look at what grew in the slow steps: the finding names it.

## Fix safety
No edit is made.

## References
The vendor's tuning guide for MindSpore calls step jitter with an empty queue the symptom of slow data.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.advise.timing.stages import slow_stage
from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind, StepWindow
from jumar.timeline.spans import Spans

RULE = Rule(
    code="JM420",
    name="step-jitter",
    summary="Some steps take much longer than the others.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
MIN_STEPS = 4
_CAUSES = {
    Kind.DATA: "data", Kind.COMPILE: "compiling", Kind.COLLECTOR: "Python's garbage collector",
    Kind.COLLECTIVE: "collectives",
    Kind.WAIT: "waits for the device", Kind.KERNEL: "kernels", Kind.OPERATOR: "operators on the host",
}  # fmt: skip
"""What may have grown, the more telling first."""


def find(profile: Profile) -> Outcomes:
    """Yield one finding about the steps that are much longer than the median."""
    steps = profile.judged
    if not profile.timeline.steps or len(steps) < MIN_STEPS:
        reason = (
            f"needs {MIN_STEPS} steps after the first; this timeline has {max(len(profile.timeline.steps) - 1, 0)}."
        )
        yield not_checked(RULE, reason)
        return
    median = profile.median_ns
    least = profile.thresholds.of("JM420", "slow_step") * median
    least = max(least, median + 1e6 * profile.thresholds.of("JM420", "extra_ms"))
    slow = [step for step in steps if step.duration_ns > least]
    lost = sum(step.duration_ns - median for step in slow)
    if lost > profile.thresholds.of("JM420", "share") * sum(step.duration_ns for step in steps):
        yield _finding(profile, slow, lost)


def _finding(profile: Profile, slow: list[StepWindow], lost: float) -> Finding:
    numbers = ", ".join(str(step.number) for step in slow[:6]) + (", …" if len(slow) > 6 else "")
    whole = sum(step.duration_ns for step in profile.judged)
    cause, grown_ns = _grown(profile, slow)
    told = f"; {cause} took {grown_ns / 1e6:,.1f} ms more in them than in a usual step" if cause else ""
    stage = slow_stage(profile.timeline) if cause == "data" else None
    longest = max(step.duration_ns for step in slow) / 1e6
    finding = RULE.finding(
        f"{len(slow)} of {len(profile.judged)} steps take up to {longest:,.1f} ms where the median is "
        f"{profile.median_ns / 1e6:,.1f} ms: {percent_text(lost / whole)} of the run's time{told}."
        + (f" {stage}" if stage else ""),
        where=Location(step=slow[0].number),
        evidence={
            "slow_steps": numbers,
            "median_ms": round(profile.median_ns / 1e6, 3),
            "longest_ms": round(longest, 3),
            "lost_ms": round(lost / 1e6, 3),
            "grew": cause,
        },
        why="The median hides them; a run pays for all of them.",
        action=stage.action
        if stage
        else f"Look at step {slow[0].number}: what grew there is " + (cause or "outside what was recorded") + ".",
    )
    starts = np.array([step.start_ns for step in slow], np.int64)
    return profile.priced(finding, Spans.of(starts + int(profile.median_ns), np.array([step.end_ns for step in slow])))


def _grown(profile: Profile, slow: list[StepWindow]) -> tuple[str, float]:
    """Return what explains most of the growth, and by how much it grew in the mean; the first that explains half."""
    usual = [step for step in profile.judged if step not in slow]
    extra = float(np.mean([step.duration_ns for step in slow])) - profile.median_ns
    best: tuple[str, float] = ("", 0.0)
    for kind, words in _CAUSES.items():
        spans = profile.of_events(profile.timeline.of(kind))
        grown = _mean(spans, slow) - _mean(spans, usual)
        if grown > extra / 2:
            return words, grown
        if grown > best[1] and grown > extra / 10:
            best = words, grown
    return best


def _mean(spans: Spans, steps: list[StepWindow]) -> float:
    return float(np.mean([spans.clip(step.start_ns, step.end_ns).total_ns for step in steps])) if steps else 0.0
