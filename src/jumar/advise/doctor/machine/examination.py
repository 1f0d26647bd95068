"""`examine`: every rule about the environment over one `Host`, and the facts that they start from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jumar.advise.checks import NotChecked, codes_checked, finders, split
from jumar.advise.doctor.machine.host import Host, Package
from jumar.advise.doctor.variables import SetVariable, set_variables
from jumar.base.findings import Finding
from jumar.base.lazy import Shown
from jumar.base.text import size_text

RULES = "advise.doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination(Shown):
    """What the environment is, what is wrong with it, and what could not be seen."""

    device: str
    """The NPU that Jumar would use here, and why: one sentence."""
    facts: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    """The most severe first."""
    not_checked: tuple[NotChecked, ...]
    num_checked: int
    variables: tuple[SetVariable, ...] = ()
    """The vendor's environment variables that are set."""


def examine(host: Host) -> Examination:
    """Run the rules; none of them looks at anything but `host`."""
    modules = finders(RULES)
    findings, gaps = split(outcome for module in modules for outcome in module.find(host))
    return Examination(
        device=device_sentence(host),
        facts=tuple(facts_of(host)),
        findings=tuple(sorted(findings, key=lambda finding: (-finding.severity, finding.code))),
        not_checked=tuple(gaps),
        num_checked=len(codes_checked(modules, gaps)),
        variables=set_variables(host.environ),
    )


def device_sentence(host: Host) -> str:
    """Return which NPU `jumar run` and the others would use, as jumar.device decides it, and why."""
    package, torch = host.python.torch_npu, host.python.torch
    if not torch.usable:
        return "Jumar can use no NPU here, because torch does not import."
    if not package.installed:
        return "Jumar uses its emulated NPU, because torch_npu is not installed."
    if not package.usable:
        return "Jumar uses its emulated NPU, because torch_npu does not import."
    if host.python.num_npus == 0:
        return "torch_npu imports and sees no device: Jumar takes it for the real NPU, and runs will fail."
    devices = "an unknown number of devices" if host.python.num_npus is None else f"{host.python.num_npus} devices"
    return f"Jumar uses the real NPU through torch_npu {package.version} ({devices})."


def facts_of(host: Host) -> list[tuple[str, str]]:
    """Return what is known about the host, as names and words; what is unknown says so."""
    cores, memory = host.cores, host.memory
    return [
        ("Python", host.python.version or "unknown"),
        ("torch", _package(host.python.torch)),
        ("torch_npu", _package(host.python.torch_npu)),
        ("CANN", _cann(host)),
        ("Driver and firmware", _driver(host)),
        ("NPU device files", str(len(host.npu.device_nodes)) if host.npu.device_nodes else "none"),
        ("Cores", _cores(cores.num_usable or cores.num_cores, cores.quota)),
        ("Memory", _available(memory.available_bytes, memory.total_bytes)),
        ("/dev/shm", size_text(host.shared_memory.total_bytes) if host.shared_memory else "unknown"),
        ("Swap", _available(memory.free_swap_bytes, memory.total_swap_bytes) if memory.total_swap_bytes else "none"),
        ("Open files", "unlimited or unknown" if host.open_files is None else str(host.open_files)),
    ]


def _cann(host: Host) -> str:
    place = host.value("ASCEND_HOME_PATH") or ", ".join(host.npu.cann_folders)
    if not place:
        return "not found"
    return f"{host.software.cann}, {place}" if host.software.cann else place


def _driver(host: Host) -> str:
    driver = host.software.driver or (host.smi.version if host.smi else "")
    return f"{driver or 'unknown'}, {host.software.firmware or 'unknown'}" if host.has_npu_software else "none"


def _package(package: Package) -> str:
    if not package.installed:
        return "not installed"
    return package.version or "installed, does not import"


def _cores(cores: int | None, quota: float | None) -> str:
    if cores is None:
        return "unknown"
    return f"{cores}, of which {quota:g} may be used" if quota is not None and not math.isinf(quota) else str(cores)


def _available(available: int | None, total: int | None) -> str:
    if available is None or total is None:
        return "unknown"
    return f"{size_text(available)} available of {size_text(total)}"
