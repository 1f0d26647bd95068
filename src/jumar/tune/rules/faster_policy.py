"""JM501 faster-policy.

## What it does
Reports an operator for which a policy was found (in this run, or before in the bank) that computes the
same and is faster on the machine that was measured, with the interval of the gain.

## Why it matters
The operator is slower than it has to be there, by at least the interval's lower bound.

## Example
`dw.3/convolution_OPAT_0` (12 calls): Format `channels_last`, 281 → 150 us, +87 % (95 % interval +81 % to +95 %).

## Use instead
The policy: store the tensors in that layout, compile that part of the model, or set that number of
threads. `jumar bank show KEY` has all that was measured.

## Fix safety
No edit is made: the bank holds the policy.

## References
`jumar docs guide-tune`, the gate's formula. The vendor's `repo_modified_operators`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.bank.entry import warning_of
from jumar.tune.search.outcome import TuneResult, improvement_percent_of

RULE = Rule(
    code="JM501",
    name="faster-policy",
    summary="A policy computes an operator faster on the measured machine, with the same results.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each policy of this run's tasks."""
    for task in result.tasks:
        for slot in task.slots:
            if slot.policy is None or slot.gain is None:
                continue
            known = " (from the bank)" if slot.from_bank else ""
            warning = warning_of(slot.tried, slot.policy)
            yield RULE.finding(
                f"{task.use.name} is faster with {slot.kind} `{slot.policy}`{known}: {slot.gain}. {warning}".rstrip(),
                where=task.use.where,
                evidence={
                    **slot.gain.to_json(),
                    "improvement_percent": improvement_percent_of(slot.gain),
                    "num_calls": task.use.num_calls,
                    "module_paths": list(task.use.module_paths),
                    "key": task.use.task.key,
                    "machine": str(result.machine),
                },
                why=f"{'Estimated for' if result.machine.is_estimate else 'Measured on'} {result.machine}; it says "
                "nothing about another device.",
                action=f"See `jumar bank show {task.use.task.key[:12]}`.",
            )
