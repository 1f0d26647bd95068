"""JM532 few-cores-for-tuning.

## What it does
Says how many candidates are compiled at once, and which bound decides it, when TE_PARALLEL_COMPILER or
TUNING_PARALLEL_NUM asked for more: the smallest of both, cores × 0.8 / devices, and memory / candidate. On an NPU's
host it also compares the cores with the vendor's formula; for a CPU or a GPU that is tuned here that formula does
not bind.

## Why it matters
A variable that is set and has no effect leads to wrong conclusions about the time that tuning takes.

## Example
TE_PARALLEL_COMPILER = 8 asked for more than is compiled at once here: 1, by cores × 0.8 / devices = 2 × 0.8 / 1.

## Use instead
A value within the bound; the advice for TUNING_PARALLEL_NUM is 2/3 of the cores.

## Fix safety
No edit is made.

## References
Document 001, preconditions; the manual's pages on TE_PARALLEL_COMPILER and aoe.ini. `jumar docs guide-tune`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.measure.conditions.preconditions import Conditions

RULE = Rule(
    code="JM532",
    name="few-cores-for-tuning",
    summary="Fewer candidates are compiled at once than was asked for, or the host has too few cores.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(conditions: Conditions) -> Iterator[Finding]:
    """Yield what does not act as it was asked for, and the vendor's bound where it binds."""
    asked, lanes, cores = conditions.environment, conditions.lanes, conditions.surroundings.num_cores
    given = {
        name: value
        for name, value, was_given in (
            ("TE_PARALLEL_COMPILER", asked.compilers, asked.compilers_given),
            ("TUNING_PARALLEL_NUM", asked.tuners, asked.tuners_given),
        )
        if was_given and value > lanes.count
    }
    if given:
        yield RULE.finding(
            f"{_settings(given)} asked for more than is compiled at once here: {lanes.count}, by {lanes.bound}.",
            evidence={"num_lanes": lanes.count, "bound": lanes.bound, "num_cores": cores},
            action=f"Set {' and '.join(given)} to {lanes.count}, or leave {'them' if len(given) > 1 else 'it'} out.",
        )
    need, formula = conditions.vendor_cores
    if conditions.device == "npu" and cores < need:
        yield RULE.finding(
            f"The host has {cores} cores, and job type {conditions.job_type} asks for {formula}.",
            severity=Severity.WARNING,
            evidence={"num_cores": cores, "vendor_cores": need},
            action="Set TE_PARALLEL_COMPILER and TUNING_PARALLEL_NUM smaller.",
        )


def _settings(given: dict[str, int]) -> str:
    return " and ".join(f"{name} = {value}" for name, value in given.items())
