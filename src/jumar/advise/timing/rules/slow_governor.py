"""JM474 slow-governor.

## What it does
Reads the frequency governor of the host's cores, where the profile has it.

## Why it matters
`powersave` and `conservative` keep the clock low until a core is busy for a while. A host that starts kernels in short
bursts stays at the low clock, and the device waits for it.

## Example
```
$ cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
powersave
```

## Use instead
```bash
cpupower frequency-set -g performance
```

## Fix safety
No edit is made.

## References
The kernel's documentation of CPU performance scaling; the vendor's guide to host settings.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM474",
    name="slow-governor",
    summary="The host's cores are kept at a low clock.",
    severity=Severity.INFO,
    doc=__doc__,
)
SLOW = {"powersave", "conservative", "ondemand"}


def find(profile: Profile) -> Outcomes:
    """Yield one finding where a core has a governor that saves power.

    With the driver `intel_pstate` or `amd-pstate` in active mode, `powersave` is only a preference: so it is a hint.
    """
    told = profile.timeline.facts.get("governors", "")
    if not told:
        yield not_checked(RULE, "the host's governor is not known; virtual machines have none.")
        return
    slow = sorted(SLOW & set(told.split(",")))
    if slow:
        yield RULE.finding(
            f"Cores of the host run under the governor {', '.join(slow)}.",
            evidence={"governors": told},
            why="A host that starts kernels in short bursts stays at a low clock, and the device waits for it.",
            action="Set it to performance: `cpupower frequency-set -g performance`, and profile again.",
            confidence="possible",
        )
