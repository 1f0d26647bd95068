"""JM304 settings-differ.

## What it does
Compares how the two recordings were made: seeds, dtypes, deterministic flags, precision modes, number
of ranks, thread counts and versions.

## Why it matters
A setting is the cheapest explanation of a difference. Thread counts and versions only move rounding
and are given for information, unless one run has no such setting at all; seeds, dtypes and precision modes can change
every number.

## Example
```text
seed 0 against 1; default_dtype 'float32' against 'bfloat16'
```

## Use instead
Make the decisive settings equal before looking at operators.

## Fix safety
No edit is made.

## References
PyTorch documentation, "Reproducibility".
"""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.comparison.model.settings import SettingDiff
from jumar.comparison.walk.evidence import Evidenced

RULE = Rule(
    code="JM304",
    name="settings-differ",
    summary="The runs were made with different settings.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(found: Evidenced) -> list[Finding]:
    """Return one finding for decisive settings and one for those that need not matter."""
    findings = []
    for severity, meaning, action in (
        (Severity.WARNING, "can change every number", "Make them equal and record again, if the runs diverge."),
        (Severity.INFO, "need not matter", ""),
    ):
        diffs = [diff for diff in found.settings if diff.severity == severity and not _is_idle(diff)]
        if diffs:
            shown = "; ".join(map(str, diffs[:4])) + ("; …" if len(diffs) > 4 else "")
            findings.append(
                RULE.finding(
                    f"Settings that {meaning} differ: {shown}.",
                    evidence={diff.name: [str(diff.reference), str(diff.target)] for diff in diffs},
                    action=action,
                    severity=severity,
                )
            )
    return findings


def _is_idle(diff: SettingDiff) -> bool:
    """Tell whether only one run has the setting at all (a flag of CUDA, say), and it need not matter."""
    return diff.severity < Severity.WARNING and any(value in (None, "") for value in (diff.reference, diff.target))
