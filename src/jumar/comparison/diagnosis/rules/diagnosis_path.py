"""JM340 diagnosis-path.

## What it does
Executes the decision flow for accuracy problems over a comparison: is anything comparable, do settings,
data, parameters, random numbers and ranks agree, does NaN or Inf appear, does the first loss agree (else
the forward pass is at fault), do the gradients (else the backward pass), do the parameters after the step
(else the optimizer), do later losses. It gives every question with its answer and the figures behind it, up
to the answer that ends the search.

## Why it matters
A single number says that something differs. The order of the questions says what may be blamed: an
operator that read other data is innocent, and a loss that agrees acquits the whole forward pass.

## Example
```text
Does the loss of the first common step agree?       yes: 4.852 / 4.852, relative difference 7.5e-08
Do the gradients that the optimizer reads agree?    no: first at aten::mm in blocks.1.fc2, backward of step 0
```

## Use instead
Follow the answer marked as the decisive one; those before it need no further work.

## Fix safety
No edit is made.

## References
MindSpore, Debugging and Tuning, accuracy debugging; Ascend's PyTorch migration and training guide, accuracy chapter.
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.diagnosis.results import Diagnosis

RULE = Rule(
    code="JM340",
    name="diagnosis-path",
    summary="The way through the decision flow: which question, which answer, by which evidence.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(diagnosis: Diagnosis) -> list[Finding]:
    """Return one finding with the whole path; none where the runs agree."""
    if diagnosis.cause == "none":
        return []
    return [
        RULE.finding(
            f"{diagnosis.path[-1].question} {diagnosis.conclusion}",
            evidence={
                "cause": diagnosis.cause,
                "path": [{"question": a.question, "answer": a.answer, "evidence": a.evidence} for a in diagnosis.path],
            },
        )
    ]
