"""JM842 clock-not-synchronised.

## What it does
On jobs with several machines, asks the kernel whether its clock is synchronised.

## Why it matters
The order of errors over all ranks is that of their times. With clocks apart, a consequence looks like the cause.

## Example
```
$ timedatectl
System clock synchronized: no
```

## Use instead
```
$ systemctl enable --now chronyd
```

## Fix safety
No edit is made.

## References
adjtimex(2), STA_UNSYNC.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM842",
    name="clock-not-synchronised",
    summary="The clock is not kept in step with those of the other machines.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the clock, where times of several machines are compared."""
    if host.num_nodes < 2:
        return
    clock = host.clock
    if clock.is_synchronised is None:
        yield not_checked(RULE, "the system does not tell whether its clock is synchronised.")
        return
    if clock.is_synchronised:
        return
    yield RULE.finding(
        "The kernel says that its clock is not synchronised.",
        evidence={"source": clock.source},
        why="Logs of several machines are put in the order of their times.",
        action="systemctl enable --now chronyd (or systemd-timesyncd, ntpd), as root, on every machine",
    )
