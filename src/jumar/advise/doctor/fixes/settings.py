"""`setting_changes`: governor, energy preference, huge pages, ports, overcommit, /dev/shm; all until the next start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jumar.advise.doctor.fixes.change import Change, Remount, Setting
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding
from jumar.base.host import read_text
from jumar.base.text import GIB

_CPU = "sys/devices/system/cpu"
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
_WANTED_SHM = 16 * GIB
_SHARE_OF_MEMORY = 0.5
_SYSCTL = re.compile(r"sysctl -w ((?:net|vm|kernel)\.[\w.]+)=(\S+)")
_SAFE_SYSCTLS = ("net.ipv4.ip_local_reserved_ports", "vm.overcommit_memory", "net.core.somaxconn", "vm.max_map_count")
"""Those that take effect at once, at run time, and go back by writing the old value."""


def setting_changes(host: Host, findings: Sequence[Finding], root: Path) -> Iterator[Change]:
    """Yield the changes of the kernel's settings that these findings ask for."""
    seen: set[str] = set()
    for finding in findings:
        for wanted in _WANTED:
            change = wanted(host, finding, root)
            if change is not None and change.title not in seen:
                seen.add(change.title)
                yield change


def _governor(host: Host, finding: Finding, root: Path) -> Change | None:
    del host
    if finding.code != "JM812" and "frequency-set -g performance" not in finding.action:
        return None
    old = _per_core(root, "scaling_governor", "performance", "scaling_available_governors")
    return None if not old else Setting(title="Governor performance", code=finding.code, new="performance", old=old)


def _preference(host: Host, finding: Finding, root: Path) -> Change | None:
    del host
    if finding.code != "JM819" or "preferences" not in finding.evidence:
        return None
    choices = "energy_performance_available_preferences"
    old = _per_core(root, "energy_performance_preference", "performance", choices)
    title = "Energy preference performance"
    return None if not old else Setting(title=title, code=finding.code, new="performance", old=old)


def _per_core(root: Path, name: str, new: str, choices: str) -> tuple[tuple[Path, str], ...]:
    """Return the files of the cores that have another value and can have this one."""
    found = []
    for file in sorted((root / _CPU).glob(f"cpu[0-9]*/cpufreq/{name}")):
        value, offered = read_text(file), read_text(file.with_name(choices))
        if value and value != new and (not offered or new in offered.split()):
            found.append((file, value))
    return tuple(found)


def _huge_pages(host: Host, finding: Finding, root: Path) -> Change | None:
    if finding.code != "JM832" or not host.kernel.huge_pages:
        return None
    file = root / _HUGE_PAGES
    old = host.kernel.huge_pages
    return Setting(title="Transparent huge pages always", code=finding.code, new="always", old=((file, old),))


def _sysctl(host: Host, finding: Finding, root: Path) -> Change | None:
    del host
    match = _SYSCTL.search(finding.action)
    if match is None or match[1] not in _SAFE_SYSCTLS:
        return None
    file = root / "proc/sys" / match[1].replace(".", "/")
    if not file.exists():
        return None
    return Setting(title=f"{match[1]}={match[2]}", code=finding.code, new=match[2], old=((file, read_text(file)),))


def _shared_memory(host: Host, finding: Finding, root: Path) -> Change | None:
    del root
    shared, memory = host.shared_memory, host.memory.total_bytes
    if finding.code != "JM815" or shared is None or memory is None:
        return None
    new = min(_WANTED_SHM, int(memory * _SHARE_OF_MEMORY))
    if new <= shared.total_bytes:
        return None
    return Remount(
        title="A larger /dev/shm", code=finding.code, path=shared.path, old_bytes=shared.total_bytes, new_bytes=new
    )


_WANTED: tuple[Callable[[Host, Finding, Path], Change | None], ...] = (
    _governor,
    _preference,
    _huge_pages,
    _sysctl,
    _shared_memory,
)
