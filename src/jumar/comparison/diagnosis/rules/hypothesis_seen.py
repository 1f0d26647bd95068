"""JM341 hypothesis.

## What it does
Reads the shape of the difference at the first divergence: a constant ratio, a constant offset, the same values
in other places, a difference in tails or tiles only, in great or tiny values only, in masked rows only, low bits
that are zero, one unit in the last place in one direction, growth along a dimension, values of the step before.
Each is a hypothesis about the cause, with the share of the difference that it explains and what would confirm
it. Whole tensors tell most, sketches and statistics less. Where the runs run other operators, it also says when
Python's or NumPy's random numbers, by which a script may choose its way, differ between them.

## Why it matters
The operator that differs first says where; the shape of the difference often says why.

## Example
```text
The target is 0.125 times the reference, which is 1/√64, of a dimension of size 64: a scale is missing or
applied twice.
```

## Use instead
Do what the hypothesis names for its confirmation before changing anything.

## Fix safety
No edit is made.

## References
None.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.comparison.diagnosis.results import Diagnosis
from jumar.recording.schema import split_source

RULE = Rule(
    code="JM341",
    name="hypothesis",
    summary="What the shape of the difference points to.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(diagnosis: Diagnosis) -> list[Finding]:
    """Return one finding a hypothesis, the best first; arguments that differ are said by the divergence itself."""
    findings = []
    for one in diagnosis.suspicions:
        if one.seen_in == "arguments":
            continue
        path, line = split_source(one.source)
        findings.append(
            RULE.finding(
                one.hypothesis.statement,
                where=Location(
                    path=path,
                    line=line,
                    module_path=one.module_path,
                    operator=one.operator,
                    phase=one.phase,
                    step=one.step,
                    rank=one.rank,
                ),
                evidence={
                    "kind": one.hypothesis.kind,
                    "tensor": one.tensor,
                    "seen_in": one.seen_in,
                    "score": one.hypothesis.score,
                    **one.hypothesis.evidence,
                },
                action=one.hypothesis.confirm,
                confidence=one.hypothesis.confidence,
            )
        )
    return findings
