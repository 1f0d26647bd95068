"""JM531 low-memory-for-tuning.

## What it does
Compares the memory that is available with (3 × data of the model + 1 GiB) × lanes, lanes being the candidates
that are compiled at once. On an NPU's host also with the vendor's bounds: 32 GB, and 64 GB for O1 and deeper_opat.

## Why it matters
A candidate whose memory runs out is ended, by its limit or by the kernel, and counts as lost; on the vendor's
tuner the whole run is.

## Example
1.9 GiB are available, and this run may need (3 × 0.4 GiB + 1 GiB) × 1 = 2.2 GiB.

## Use instead
End other programs, or set TUNING_PARALLEL_NUM or TE_PARALLEL_COMPILER smaller.

## Fix safety
No edit is made.

## References
Document 001: training RAM × TUNING_PARALLEL_NUM. Document 000, out of memory while tuning. `jumar docs guide-tune`,
before a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.tune.measure.conditions.preconditions import Conditions

RULE = Rule(
    code="JM531",
    name="low-memory-for-tuning",
    summary="There is less memory than the tuning run may need.",
    severity=Severity.WARNING,
    doc=__doc__,
)

VENDOR_GB, VENDOR_THOROUGH_GB = 32, 64


def find(conditions: Conditions) -> Iterator[Finding]:
    """Yield a finding when memory is short, here or by the vendor's measure."""
    available, total = conditions.surroundings.available_bytes, conditions.surroundings.memory_bytes
    lanes = conditions.lanes.count
    need = conditions.candidate_bytes * lanes
    if available is not None and available < need:
        yield RULE.finding(
            f"{size_text(available)} of memory are available, and this run may need (3 × data + 1 GiB) × lanes = "
            f"(3 × {size_text(conditions.data_bytes)} + 1 GiB) × {lanes} = {size_text(need)}.",
            evidence={"available_bytes": available, "need_bytes": need, "num_lanes": lanes},
            why="A candidate that runs out of memory is ended and lost.",
            action="End other programs, or set TUNING_PARALLEL_NUM smaller.",
        )
    least = VENDOR_THOROUGH_GB if conditions.thorough else VENDOR_GB
    if conditions.device == "npu" and total is not None and total < least * 10**9:
        tuners = conditions.environment.tuners
        yield RULE.finding(
            f"The host has {total / 1e9:.0f} GB of memory, and the vendor asks for {least} GB and for the training's "
            f"own memory × TUNING_PARALLEL_NUM = × {tuners}.",
            evidence={"memory_bytes": total, "vendor_bytes": least * 10**9, "tuning_parallel_num": tuners},
            why="The vendor's tuner is killed for memory and loses its run.",
            action="Set TUNING_PARALLEL_NUM smaller.",
        )
