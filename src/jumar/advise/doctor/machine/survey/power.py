"""`survey_governors` and `survey_power`: what decides how fast the processor runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from jumar.advise.doctor.machine.parts import Power
from jumar.base.host import read_text

_CPU = "sys/devices/system/cpu"


def survey_governors(root: Path) -> dict[str, int]:
    """Count the cores under each frequency governor."""
    return _counted(root, "scaling_governor")


def survey_power(root: Path) -> Power:
    """Read driver, energy preferences, boost, and the profiles of tuned and of the firmware."""
    return Power(
        driver=next(iter(_counted(root, "scaling_driver")), ""),
        preferences=_counted(root, "energy_performance_preference"),
        is_boost_off=_is_boost_off(root),
        tuned_profile=read_text(root / "etc/tuned/active_profile"),
        platform_profile=read_text(root / "sys/firmware/acpi/platform_profile"),
        capped_percent=_capped(root),
    )


def _counted(root: Path, name: str) -> dict[str, int]:
    return dict(Counter(text for file in _files(root, name) if (text := read_text(file))))


def _files(root: Path, name: str) -> Iterator[Path]:
    yield from (root / _CPU).glob(f"cpu[0-9]*/cpufreq/{name}")


def _is_boost_off(root: Path) -> bool | None:
    """intel_pstate says `no_turbo`, the other drivers say `boost`. Source: Linux, admin-guide/pm."""
    no_turbo = read_text(root / _CPU / "intel_pstate/no_turbo")
    if no_turbo:
        return no_turbo == "1"
    boost = read_text(root / _CPU / "cpufreq/boost")
    return boost == "0" if boost else None


def _capped(root: Path) -> float | None:
    """Return the least of the cores' highest allowed frequencies, in percent of what the hardware can."""
    shares = []
    for file in _files(root, "scaling_max_freq"):
        allowed, able = read_text(file), read_text(file.with_name("cpuinfo_max_freq"))
        if allowed.isdigit() and able.isdigit() and int(able):
            shares.append(100 * int(allowed) / int(able))
    return min(shares, default=None)
