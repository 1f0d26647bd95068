"""JM832 huge-pages.

## What it does
Reads the setting of transparent huge pages, on machines with an NPU.

## Why it matters
The vendor advises `always` for hosts of large models: throughput is then steadier.

## Example
```
$ cat /sys/kernel/mm/transparent_hugepage/enabled
always madvise [never]
```

## Use instead
```
$ echo always > /sys/kernel/mm/transparent_hugepage/enabled
```

## Fix safety
`jumar doctor --fix` can do it and writes how to undo it.

## References
MindIE, "Performance Tuning": CPU high-performance mode and transparent huge pages.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM832",
    name="huge-pages",
    summary="Transparent huge pages are not always used.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the setting: `never` is advice, `madvise` information."""
    if not host.npu.device_nodes:
        return
    setting = host.kernel.huge_pages
    if not setting:
        yield not_checked(RULE, "the setting of transparent huge pages cannot be read here.")
        return
    if setting == "always":
        return
    yield RULE.finding(
        f"Transparent huge pages are set to {setting}.",
        severity=Severity.ADVICE if setting == "never" else Severity.INFO,
        evidence={"setting": setting},
        why="The vendor measured steadier throughput with always, for hosts of large models.",
        action="echo always > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
    )
