"""JM830 npu-health.

## What it does
Reads the health of each chip as `npu-smi info` prints it.

## Why it matters
A chip in the state Alarm or Critical ends runs with errors that look like those of a program.

## Example
```
| 3     910B3               | Alarm         | 97.5        41                0    / 0             |
```

## Use instead
```
npu-smi info -t health -i 3        # names the fault
```

## Fix safety
No edit is made.

## References
npu-smi command reference: Health is OK, Warning, Alarm, Critical or UNKNOWN.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM830",
    name="npu-health",
    summary="npu-smi reports a chip that is not healthy.",
    severity=Severity.ERROR,
    doc=__doc__,
)

WORD_TO_SEVERITY = {"warning": Severity.WARNING, "unknown": Severity.WARNING}


def find(host: Host) -> Outcomes:
    """Report the chips that are not OK."""
    if not host.npu.device_nodes and host.smi is None:
        return
    if host.smi is None or not host.smi.chips:
        yield not_checked(RULE, "npu-smi is not here, or prints no table of chips.")
        return
    for chip in host.smi.chips:
        if chip.health.upper() == "OK" or not chip.health:
            continue
        yield RULE.finding(
            f"NPU {chip.npu} chip {chip.chip} is in the state {chip.health}.",
            severity=WORD_TO_SEVERITY.get(chip.health.lower(), Severity.ERROR),
            evidence={"npu": chip.npu, "chip": chip.chip, "health": chip.health},
            why="Runs on it end with errors that look like those of a program.",
            action=f"npu-smi info -t health -i {chip.npu}; leave it out until it is mended.",
        )
