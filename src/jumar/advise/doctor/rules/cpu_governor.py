"""JM812 cpu-governor.

## What it does
Reads the frequency governor of every core and reports those that are not `performance`.

## Why it matters
The host launches every operator and prepares every batch. Under `powersave` a core stays at its lowest
frequency; under `ondemand` it comes up late, again and again.

## Example
```
$ cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
powersave
```

## Use instead
```
$ cpupower frequency-set -g performance
```

## Fix safety
`jumar doctor --fix` can do it as root and writes how to undo it.

## References
The vendor's PyTorch migration and training guide, "host-side performance", which also sets the power policy of
the BIOS to Performance.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM812",
    name="cpu-governor",
    summary="The processor is not set to its highest frequency.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
SCALING = ("intel_pstate", "amd-pstate-epp")
"""Drivers under which powersave is no fixed lowest frequency."""


def find(host: Host) -> Outcomes:
    """Judge the governors."""
    governors = host.governors
    if not governors:
        yield not_checked(
            RULE, "the system shows no frequency governor (virtual machines and containers often hide it)."
        )
        return
    slow = {name: number for name, number in governors.items() if name != "performance"}
    if not slow:
        return
    counted = ", ".join(f"{name} on {number} cores" for name, number in slow.items())
    yield RULE.finding(
        f"The processor's frequency governor is {counted}.",
        evidence=dict(slow),
        why=_why(host),
        action=_action(host),
    )


def _why(host: Host) -> str:
    if host.power.driver in SCALING and "powersave" in host.governors:
        return (
            f"Under {host.power.driver} powersave still scales, by the energy preference; performance is steadier. "
            "A slow host leaves the NPU waiting."
        )
    return "Operators are launched and batches prepared by the host; a slow host leaves the NPU waiting."


def _action(host: Host) -> str:
    command = "tuned-adm profile throughput-performance" if host.power.tuned_profile else ""
    command = command or "cpupower frequency-set -g performance"
    return f"{command} (as root), and the BIOS power policy to Performance."
