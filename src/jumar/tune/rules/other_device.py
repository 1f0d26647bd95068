"""JM505 tuned-for-another-device.

## What it does
Says that the recording was made on one device and its operators were tuned for another.

## Why it matters
Policies hold for the machine they were measured on. A layout or a number of threads that is best on
this CPU says nothing about an NPU or a GPU.

## Example
The recording is of npu (emulated); its operators were tuned for cpu.

## Use instead
Use these policies where the model runs on this machine. For the device of the recording, tune there.

## Fix safety
No edit is made.

## References
`jumar docs guide-tune`, what a policy holds for.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM505",
    name="tuned-for-another-device",
    summary="The recording was made on another device than the one that was measured.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding when the devices differ."""
    if not result.num_tasks or not result.is_of_another_device:
        return
    yield RULE.finding(
        f"The recording is of {result.recorded_device or 'an unnamed device'}; its operators were tuned for "
        f"{result.machine}.",
        evidence={"recorded_device": result.recorded_device, "machine": str(result.machine)},
        why="A policy for one device says nothing about another.",
        action="Use these policies only where the model runs on the device that they were found for.",
    )
