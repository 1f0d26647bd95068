"""JM828 driver-version.

## What it does
Compares the firmware with the range that the driver's own version.info names, and the driver (Ascend HDK) with those
that the release notes of CANN name.

## Why it matters
With a driver that is too old, devices do not come up or operators fail in AI CPU and HCCL, with messages that name
neither. A newer driver than the table names mostly works, and is not reported.

## Example
```
CANN 9.1.0 with Ascend HDK 25.0.RC1
```

## Use instead
Ascend HDK 25.2 or newer for CANN 9.1.

## Fix safety
No edit is made.

## References
compatible_version_fw in /usr/local/Ascend/driver/version.info; release notes of CANN 9.1.0 and 8.5.0 ("Ascend HDK");
MindIE 2.1.RC1 for CANN 8.2.RC1.
"""

from __future__ import annotations

from jumar.advise.checks import NotChecked, Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.pairs import drivers_of, first_two, order, table_date
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM828",
    name="driver-version",
    summary="Driver, firmware and CANN are not of releases that go together.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Compare firmware, driver and CANN."""
    if not host.has_npu_software:
        return []
    if not driver_of(host):
        reason = "the driver's version cannot be read; mount /usr/local/Ascend/driver/version.info into the container."
        return [not_checked(RULE, reason)]
    return [*_firmware(host), *_cann(host)]


def driver_of(host: Host) -> str:
    """Return the driver's version by its file, else by npu-smi; empty when neither tells."""
    return host.software.driver or (host.smi.version if host.smi else "")


def _firmware(host: Host) -> list[Finding | NotChecked]:
    firmware, ranges = host.software.firmware, host.software.firmware_range
    if not firmware or not ranges:
        return [not_checked(RULE, "the firmware's version cannot be read here.", partly=True)]
    number = order(firmware)[:3]
    if any(order(low) <= number <= order(high) for low, high in ranges):
        return []
    told = ", ".join(f"{low} to {high}" for low, high in ranges)
    return [
        RULE.finding(
            f"The firmware is {firmware}; the driver {driver_of(host)} works with {told}.",
            severity=Severity.ERROR,
            evidence={"firmware": firmware, "driver": driver_of(host), "ranges": told},
            why="The driver's version.info says so (compatible_version_fw).",
            action="Install driver and firmware of one release of Ascend HDK, then reboot.",
        )
    ]


def _cann(host: Host) -> list[Finding | NotChecked]:
    driver, cann = driver_of(host), host.software.cann
    if not cann:
        return [not_checked(RULE, "no file of CANN tells its release here.", partly=True)]
    known = drivers_of(cann)
    if known is None:
        return [not_checked(RULE, f"the tables of {table_date()} name no driver for CANN {cann}.", partly=True)]
    if first_two(driver) in known.hdk and order(driver) >= order(known.least):
        return []
    if order(driver) >= order(known.least):
        return []
    return [
        RULE.finding(
            f"CANN {cann} asks for Ascend HDK {known.least} or newer; the driver is {driver}.",
            evidence={"cann": cann, "driver": driver, "drivers": list(known.hdk)},
            why=f"Source of the table: {known.source}.",
            action=f"Install Ascend HDK {known.hdk[-1]}, or a CANN that goes with the driver.",
        )
    ]
