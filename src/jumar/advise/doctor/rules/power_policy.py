"""JM819 power-policy.

## What it does
Reads the energy preference of the cores (EPP), turbo and boost, the highest allowed frequency, the profile of
`tuned` and the power mode that the firmware shows.

## Why it matters
The governor is not the only brake. With `intel_pstate` or `amd-pstate` the energy preference decides, and a power mode
of the BIOS holds all of them down.

## Example
```
$ cat /sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference
balance_power
```

## Use instead
```
$ tuned-adm profile throughput-performance
$ cpupower set -b 0
```
In the BIOS: Power Policy Performance.

## Fix safety
The energy preference: `jumar doctor --fix` can set it and writes how to undo it. The BIOS is shown only.

## References
The vendor's PyTorch migration and training guide, "host-side performance" (Power Policy, Performance); Linux,
admin-guide/pm: intel_pstate, amd-pstate, cpufreq.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.parts import Power
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM819",
    name="power-policy",
    summary="A power setting keeps the processor below its full speed.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

SAVING_PROFILES = (
    "powersave",
    "balanced",
    "balanced-battery",
    "laptop",
    "desktop",
    "desktop-powersave",
    "spindown-disk",
)
FAST_MODES = ("performance", "balanced-performance", "max-power")
LEAST_PERCENT = 95.0
NEUTRAL = ("performance", "default")
"""`default` is what the firmware set, which cannot be seen here."""


def find(host: Host) -> Outcomes:
    """Judge what is known of the power settings."""
    power = host.power
    known = power.preferences or power.tuned_profile or power.platform_profile
    if not known and power.is_boost_off is None and power.capped_percent is None:
        return [
            not_checked(RULE, "the system shows no power setting (virtual machines and containers often hide them).")
        ]
    return [*_cores(power), *_profiles(power)]


def _cores(power: Power) -> list[Finding]:
    found = []
    saving = {name: number for name, number in power.preferences.items() if name not in NEUTRAL}
    if saving:
        told = ", ".join(f"{name} on {number} cores" for name, number in saving.items())
        found.append(_finding(f"The energy preference is {told}.", {"preferences": dict(saving)}, "cpupower set -b 0"))
    if power.is_boost_off:
        action = "Write 0 to /sys/devices/system/cpu/intel_pstate/no_turbo, or 1 to .../cpufreq/boost (as root)."
        found.append(_finding("Turbo (boost) is off.", {"boost": False}, action))
    capped = power.capped_percent
    if capped is not None and capped < LEAST_PERCENT:
        message = f"The highest allowed frequency is {capped:.0f} % of what the processor can."
        found.append(_finding(message, {"percent": round(capped, 1)}, "cpupower frequency-set -u MAX (as root)"))
    return found


def _profiles(power: Power) -> list[Finding]:
    found = []
    if power.tuned_profile in SAVING_PROFILES:
        message = f"The profile of tuned is {power.tuned_profile}."
        action = "tuned-adm profile throughput-performance (as root)"
        found.append(_finding(message, {"tuned": power.tuned_profile}, action))
    mode = power.platform_profile
    if mode and mode not in FAST_MODES:
        message = f"The firmware's power mode is {mode}."
        action = "Write performance to /sys/firmware/acpi/platform_profile (as root), or set Power Policy in the BIOS."
        found.append(_finding(message, {"mode": mode}, action))
    return found


def _finding(message: str, evidence: dict[str, object], action: str) -> Finding:
    return RULE.finding(
        message,
        evidence=evidence,  # type: ignore[arg-type]  # plain JSON values
        why="Operators are launched and batches prepared by the host; a slow host leaves the NPU waiting.",
        action=action,
    )
