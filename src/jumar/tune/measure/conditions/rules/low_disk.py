"""JM530 low-disk-for-tuning.

## What it does
Compares the free space of the working folder, of the folder for temporary files and of the home folder with
what the run may need: (2 + lanes) × data of the model + 1 GiB. The vendor's 20 GB is for its own tuner: on an
NPU's host less than that is a note when what is needed here is there.

## Why it matters
Candidates are compiled to files, and engines keep their own form of the weights. A candidate that finds the disk
full is lost, and so may be the result file.

## Example
0.4 GiB are free in the folder for temporary files, and this run may need (2 + 1) × 0.1 GiB + 1 GiB = 1.3 GiB.

## Use instead
Free space, or point ASCEND_WORK_PATH, ASCEND_CACHE_PATH and TMPDIR to another file system.

## Fix safety
No edit is made.

## References
Document 001, preconditions: the home folder has 20 GB. `jumar docs guide-tune`, before a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Json, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.tune.measure.conditions.preconditions import Conditions

RULE = Rule(
    code="JM530",
    name="low-disk-for-tuning",
    summary="There is less free disk space than the tuning run may need.",
    severity=Severity.WARNING,
    doc=__doc__,
)

VENDOR_BYTES = 20 * 10**9


def find(conditions: Conditions) -> Iterator[Finding]:
    """Yield a finding for each file system that has too little."""
    need = conditions.disk_need_bytes
    formula = (
        f"(2 + lanes) × data + 1 GiB = (2 + {conditions.lanes.count}) × {size_text(conditions.data_bytes)} + 1 GiB "
        f"= {size_text(need)}"
    )
    for folder, free in conditions.surroundings.free_bytes.items():
        evidence: dict[str, Json] = {"folder": folder, "free_bytes": free, "need_bytes": need}
        if free < need:
            yield RULE.finding(
                f"{size_text(free)} are free in {folder}, and this run may need {formula}.",
                evidence=evidence,
                why="A candidate that finds the disk full is lost.",
                action="Free space, or point ASCEND_WORK_PATH, ASCEND_CACHE_PATH and TMPDIR elsewhere.",
            )
        elif conditions.device == "npu" and free < VENDOR_BYTES:
            yield RULE.finding(
                f"{size_text(free)} are free in {folder}: enough for this run ({formula}), and less than the "
                "20 GB that the vendor's tuner asks for.",
                evidence=evidence,
                severity=Severity.INFO,
            )
