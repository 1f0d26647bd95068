"""JM841 variable-misspelled.

## What it does
Reports environment variables that nothing reads and whose name is one slip of the keyboard away from a known one: a
letter too few, too many, another, or two that changed places.

## Why it matters
A misspelled variable does nothing, and nobody says so. The default holds.

## Example
```
export HCCL_CONECT_TIMEOUT=1200
```

## Use instead
```
export HCCL_CONNECT_TIMEOUT=1200
```

## Fix safety
No edit is made: the variable may belong to a program of yours.

## References
`jumar docs variables` lists the known variables.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.variables import misspelled
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM841",
    name="variable-misspelled",
    summary="An environment variable has a name that is nearly a known one.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Report each name that is nearly a known one."""
    return [
        RULE.finding(
            f"{name} is set, and nothing reads it; {known} is nearly the same name.",
            evidence={"variable": name, "value": host.environ[name], "known": known},
            why=f"{known} keeps its default.",
            action=f"If you mean {known}: export {known}={host.environ[name]}",
            confidence="likely",
        )
        for name, known in misspelled(host.environ)
    ]
