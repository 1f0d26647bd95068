"""The parts of a `Host` beyond Python and memory, as plain values. None and empty mean not known, never all is well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A file system that training writes to."""

    path: str
    purpose: str
    total_bytes: int
    free_bytes: int
    kind: str = ""
    """Type of the file system as the kernel names it: `ext4`, `nfs4`; empty when unknown."""
    free_inodes: int | None = None
    """Files that can still be made; None where the file system has no such limit or does not tell."""
    total_inodes: int | None = None
    is_read_only: bool = False
    is_noexec: bool = False
    """Programs and libraries in it may not be run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What decides how fast the processor runs, beside the governor."""

    driver: str = ""
    """Frequency driver: `intel_pstate`, `acpi-cpufreq`, `cppc_cpufreq`."""
    preferences: Mapping[str, int] = field(default_factory=dict)
    """Energy preference (EPP) to the number of cores under it."""
    is_boost_off: bool | None = None
    tuned_profile: str = ""
    platform_profile: str = ""
    """Power mode of the firmware where it shows one: `balanced`, `low-power`, `performance`."""
    capped_percent: float | None = None
    """Highest frequency that is allowed, in percent of the processor's; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Soft limits of a process; infinity is unlimited, None unknown."""

    processes: float | None = None
    locked_bytes: float | None = None
    stack_bytes: float | None = None
    core_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Settings of the kernel."""

    huge_pages: str = ""
    """Transparent huge pages: `always`, `madvise`, `never`."""
    overcommit: int | None = None
    """vm.overcommit_memory: 2 promises no more than there is."""
    entropy: int | None = None
    release: str = ""
    local_ports: tuple[int, int] | None = None
    """First and last port that the kernel gives to connections."""
    reserved_ports: tuple[tuple[int, int], ...] | None = None
    """Ranges of these that it leaves alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which cores and NUMA nodes this process may use, and where the devices are."""

    allowed_cores: tuple[int, ...] = ()
    node_cores: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """NUMA node to its cores."""
    allowed_nodes: tuple[int, ...] = ()
    """NUMA nodes whose memory this process may use."""
    device_nodes: Mapping[str, int] = field(default_factory=dict)
    """Bus address of an NPU to its NUMA node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One line of `npu-smi info`: a chip."""

    npu: int
    chip: int
    name: str = ""
    health: str = ""
    bus: str = ""
    used_mb: int | None = None
    total_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """A process that holds a device."""

    pid: int
    name: str = ""
    npu: int | None = None
    memory_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Smi:
    """What `npu-smi info` prints."""

    version: str = ""
    chips: tuple[Chip, ...] = ()
    processes: tuple[DeviceProcess, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Versions beneath Python; empty when unknown."""

    driver: str = ""
    """Version of the driver package (Ascend HDK): `25.0.rc1.1`."""
    firmware: str = ""
    """Version of the firmware: `7.7.0.1.231`."""
    firmware_range: tuple[tuple[str, str], ...] = ()
    """Lowest and highest firmware that the driver says it works with."""
    cann: str = ""
    """Release of CANN: `8.2.RC1`."""
    cann_file: str = ""
    """The file that says so."""
    libc: tuple[str, str] = ("", "")
    """Name and version: `glibc`, `2.35`."""
    architecture: str = ""
    abi_flags: str = ""
    """`t` for a Python without the global lock, `d` for a debug build."""
    parallel_tunings: int | None = None
    """TUNING_PARALLEL_NUM of aoe.ini."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Where the ranks meet, as seen from here."""

    address: str
    port: int | None = None
    """None where MASTER_PORT is unset or no number."""
    resolved: tuple[str, ...] | None = None
    """Addresses that the name stands for; empty when it stands for none, None when nothing was asked."""
    answers: bool | None = None
    """Whether something accepts connections there; None when nothing was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """This machine's addresses, names and ports."""

    host_name: str = ""
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Interface to its addresses, the loopback too; empty when unknown."""
    interfaces: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name in /etc/hosts to its addresses."""
    listening: frozenset[int] | None = None
    """TCP ports that are taken here; None when unknown."""
    device_addresses: Mapping[int, str] | None = None
    """Device to its address in /etc/hccn.conf; None where there is no such file."""
    rendezvous: Rendezvous | None = None

    @property
    def own(self) -> frozenset[str]:
        """All addresses of this machine."""
        return frozenset(address for addresses in self.addresses.values() for address in addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Whether the time is kept in step with others."""

    is_synchronised: bool | None = None
    source: str = ""
    """What said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTable:
    """The file that RANK_TABLE_FILE names."""

    path: str
    text: str | None = None
    """None when it cannot be read."""
