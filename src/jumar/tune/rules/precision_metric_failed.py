"""JM538 precision-metric-failed.

## What it does
Reports that the callable given as `--metric` raised, returned what is no number, or finds the model itself, in its own
precision, beyond the budget.

## Why it matters
The budget is for what the metric says. Without it nothing is chosen, however small the outputs' errors are.

## Example
net: the metric metrics:top1 failed: IndexError: too many indices for tensor of dimension 1.
net: the metric metrics:cosine failed: it says 1 of the model in its own precision, where 0 is no error and 0.01 is
allowed.

## Use instead
`metric(outputs, reference_outputs)` gets two tuples of tensors of equal shapes and returns a float, 0 for no error:
`1 - accuracy` and not the accuracy, of which 0 would be within every budget. Try it on the model's own outputs first.

## Fix safety
No edit is made.

## References
`jumar docs tune-precision`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM538",
    name="precision-metric-failed",
    summary="The metric for the error budget raised.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph whose metric failed."""
    for one in result.precisions:
        if one.metric_failed:
            yield RULE.finding(
                f"{one.name}: the metric {one.metric} failed: {one.metric_failed}.",
                why="Without what it says nothing can be chosen.",
                action="Mend it: metric(outputs, reference_outputs) gets two tuples of tensors and returns a float.",
            )
