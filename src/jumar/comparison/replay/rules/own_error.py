"""JM325 own-error.

## What it does
Names an operator whose recorded output is wrong for the inputs it was recorded with: the operator is
executed again in float64 on the CPU from these very inputs, and the recorded output is off by more than
rounding in its dtype explains (and by more than four times the error of the CPU's own kernel in that dtype,
for operators that amplify rounding). What the operator inherited from those before it plays no part.

## Why it matters
A difference between two runs shows everywhere after its origin. An error of its own shows only there: this
operator, on this device, with these inputs, is inaccurate or wrong, and it can be taken out of the model
and reported.

## Example
```text
aten::addmm of blocks.3.fc1, forward of step 0, model.py:41: own error 3.2e-04, 2,700 units in the last place of
float32 and 210 times what rounding explains; the reference's own error is 6.0e-08
```

## Use instead
`jumar repro` writes a script of this one operator with its inputs, to be run on any device or attached to an
issue. Meanwhile run it in float32 or on the host; `jumar accuracy bisect` shows what that does to the loss.

## Fix safety
No edit is made.

## References
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 2 to 4; Ascend's PyTorch
migration guide, chapter on writing cases of a single operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.words import located
from jumar.comparison.replay.results import Replayed
from jumar.comparison.replay.words import figures, place

RULE = Rule(
    code="JM325",
    name="own-error",
    summary="An operator whose output is wrong for the inputs it had.",
    severity=Severity.ERROR,
    doc=__doc__,
)

DOUBTFUL = 4.0
"""Multiples of the tolerance below which the fault is called likely, not certain."""


def find(replayed: Sequence[Replayed]) -> Iterator[Finding]:
    """Yield a finding for each operator with an error of its own, in the order given."""
    return (_finding(row) for row in replayed if row.verdict == "own fault")


def _finding(row: Replayed) -> Finding:
    worst = row.own.worst if row.own is not None else None
    excess = worst.excess if worst is not None else 0.0
    data = row.to_json()
    return RULE.finding(
        f"{row.row.name} of {place(row.row)}: {figures(row)}.",
        where=located(row.row, row.row.name),
        evidence={name: data[name] for name in ("key", *_EVIDENCE)},
        why="It ran from its recorded inputs, so calls before it do not contribute to this error.",
        action=f"Write a case of this operator alone: jumar repro RECORDING '{row.row.step}:{row.row.key}'.",
        confidence="certain" if excess >= DOUBTFUL else "likely",
    )


_EVIDENCE = ("own_error", "own_ulps", "tolerance", "reference_error", "inherited", "ratio", "own", "note")
