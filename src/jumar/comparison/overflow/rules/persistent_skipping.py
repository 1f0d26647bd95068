"""JM332 persistent-skipping.

## What it does
Says that updates are left out step after step: eight or more in a row, all of at least three recorded steps, one
at a loss scale of 1 or less, or one that no scaler speaks of (gradients with NaN or Inf, parameters unchanged).
A few skipped steps at the start are the scaler finding its scale, and are no finding.

## Why it matters
A run that skips every update looks alive: it is fast, the loss is a number, and nothing is learned.

## Example
```text
12 of 12 steps were skipped, the loss scale is down to 1: it is not the scale that is too great
```

## Use instead
Mend the operator that JM330 names. With bfloat16 leave the scaler out: it has float32's range.

## Fix safety
No edit is made.

## References
torch.amp.GradScaler; MindSpore's debugging guide: overflow that goes on is to be looked into first.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import counted
from jumar.comparison.model.words import number
from jumar.comparison.overflow.results import OverflowReport
from jumar.comparison.overflow.skips import persistent

RULE = Rule(
    code="JM332",
    name="persistent-skipping",
    summary="Updates are skipped step after step, or silently.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(report: OverflowReport) -> list[Finding]:
    """Return one finding a rank that goes on skipping."""
    findings = []
    for rank in report.ranks:
        skips = persistent([skip for skip in report.skips if skip.rank == rank], report.steps)
        if skips:
            findings.append(
                _finding(report, rank, [skip.step for skip in skips], skips[-1].loss_scale, skips[0].silent)
            )
    return findings


def _finding(report: OverflowReport, rank: int, steps: list[int], scale: float | None, silent: bool) -> Finding:
    how = "the loss scale is not known" if scale is None else f"the loss scale is down to {number(scale)}"
    if silent:
        how = "no scaler says so: the gradients have NaN or Inf and the parameters stayed as they were"
    return RULE.finding(
        f"{counted(len(steps), 'update')} of {counted(len(report.steps), 'step')} skipped on rank {rank}; {how}.",
        where=Location(step=steps[0], rank=rank),
        evidence={"steps": list(steps), "loss_scale": scale, "silent": silent},
        why="A step whose update is left out trains nothing, even when its loss is finite.",
        action="Mend the operator named first; without a float16 part, train without a scaler.",
    )
