"""JM504 operator-not-run.

## What it does
Reports a tunable operator that could not be rebuilt and run on this machine at all, so that no
candidate could be compared with it. The vendor's `tuning_failed_operators`.

## Why it matters
It was not tuned; nothing is known about it.

## Example
enc.0/_scaled_dot_product_flash_attention_OPAT_0: NotImplementedError: no kernel on the CPU.

## Use instead
Of a recording of another device: record the script on the one that is tuned for, `jumar record --device cpu`. Of this
machine's own what the message says: an operator without a kernel for its dtype on the CPU stays untuned, one that ran
out of memory or time wants a machine that has more.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, tasks.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM504",
    name="operator-not-run",
    summary="A tunable operator could not be run on this machine.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each operator that failed."""
    again = "Record on the device that is tuned for (`jumar record --device cpu`), then tune again."
    mend = "It runs untuned; mend what the message names, then tune again."
    for task in result.failed():
        yield RULE.finding(
            f"{task.use.name} could not be run here: {task.failure}.",
            where=task.use.where,
            evidence={"num_calls": task.use.num_calls, "task": str(task.use.task)},
            action=again if result.is_of_another_device else mend,
        )
