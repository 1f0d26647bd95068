"""JM821 compile-processes.

## What it does
Compares TE_PARALLEL_COMPILER with the guide's bound: cores × 0.8 / devices.

## Why it matters
Each training process starts so many compilers. More of them than cores compile no faster, and take memory: the kernel
may end one of them.

## Example
```
export TE_PARALLEL_COMPILER=32     # 8 devices on 96 cores: 9
```

## Use instead
```
export TE_PARALLEL_COMPILER=9
```

## Fix safety
`jumar doctor --fix` can do it and writes how to undo it.

## References
TE_PARALLEL_COMPILER, environment variables of CANN: at most the number of cores × 80 % / the number of devices.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM821",
    name="compile-processes",
    summary="TE_PARALLEL_COMPILER is greater than the cores allow.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

VARIABLE = "TE_PARALLEL_COMPILER"
SHARE = 0.8


def find(host: Host) -> Outcomes:
    """Compare the variable with the bound."""
    compilers = host.number(VARIABLE)
    if compilers is None:
        return
    cores = host.cores.effective
    if cores is None:
        yield not_checked(RULE, "the number of cores is unknown here.")
        return
    devices = max(host.num_processes, host.num_devices or 1)
    most = max(1, int(cores * SHARE / devices))
    if compilers <= most:
        return
    yield RULE.finding(
        f"{VARIABLE}={compilers}; for {cores:g} cores and {devices} devices it should be at most {most}.",
        evidence={"variable": VARIABLE, "value": compilers, "most": most, "cores": cores, "devices": devices},
        why="Every training process starts so many compilers; they then wait for each other and take memory.",
        action=f"export {VARIABLE}={most}",
    )
