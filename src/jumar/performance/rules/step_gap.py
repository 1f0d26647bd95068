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

from jumar.findings import Location, Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.cost import Cost
from jumar.performance.subject import StepView, Subject, Totals
from jumar.performance.summary import wait_us
from jumar.performance.tally import percent_text
from jumar.rules import Rule

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


class StepGap(Checker):
    """Keeps each step's gap and the host time of its operators."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._gaps_us: list[float] = []
        self._work_us: list[float] = []
        self._steps: list[int] = []

    def observe(self, step: StepView) -> None:
        """Take in the step's gap."""
        self._steps.append(step.step)
        self._gaps_us.append(wait_us(step, self.subject))
        self._work_us.append(sum(call.row.duration_us for call in step.calls if self.subject.on_device(call)))

    def result(self, totals: Totals) -> Result:
        """Return one finding when the gap weighs."""
        if not totals.has_times:
            return unable("the recording has no times of its calls.")
        if not any(self._gaps_us):
            return unable("the recorded steps begin with their first call, so a wait before it cannot be seen.")
        if len(self._gaps_us) < 2:
            return unable("needs a step after the first recorded one (which includes set-up); record --steps 0:3.")
        gap, work = statistics.median(self._gaps_us[1:]), statistics.median(self._work_us[1:])
        part = gap / (gap + work)
        if part < MIN_SHARE or gap < MIN_GAP_US:
            return Result()
        finding = self.rule.finding(
            f"{gap / 1000:,.1f} ms of each step pass before the model is called, {percent_text(part)} of that and the "
            "operators' host time together (host time of the recorded run).",
            where=Location(step=self._steps[1]),
            evidence={
                "gap_us": round(gap, 1),
                "operator_us": round(work, 1),
                "gap_percent": round(100 * part, 1),
                "greatest_gap_us": round(max(self._gaps_us[1:]), 1),
                "least_gap_us": round(min(self._gaps_us[1:]), 1),
                "first_gap_us": round(self._gaps_us[0], 1),
                "num_steps": len(self._gaps_us) - 1,
            },
            why="The wait is the host's: a faster NPU does not shorten it, so it is a floor under the step time.",
            action="Load in worker processes (`num_workers`, `persistent_workers`, `pin_memory`), prepare data "
            "beforehand, and look at what runs between two steps.",
            severity=None if part >= ADVICE_SHARE else Severity.INFO,
            confidence="likely",
        )
        return Result(findings=(Priced(finding, Cost(host_us=gap)),))
