"""`Host`: everything the environment checks look at, as plain values, so that a test can plant any fault.

None stands for "could not be found out here", which is never the same as "fine".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Python package as a fresh interpreter sees it."""

    installed: bool = False
    version: str = ""
    error: str | None = None
    """What importing it raised; None when it imported or was not tried."""

    @property
    def usable(self) -> bool:
        """Whether it is there and nothing says that it does not import."""
        return self.installed and self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """The interpreter and the two packages everything depends on."""

    version: str = ""
    torch: Package = field(default_factory=Package)
    torch_npu: Package = field(default_factory=Package)
    num_npus: int | None = None
    """Devices that `torch.npu.device_count()` reports; None when torch_npu does not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Npu:
    """What of the vendor's stack lies on the disk."""

    cann_folders: tuple[str, ...] = ()
    """CANN installations at the usual places."""
    missing_folders: tuple[str, ...] = ()
    """Folders that an environment variable of CANN names and that do not exist."""
    npu_smi: str | None = None
    """Path of the driver's tool; None when it is not there."""
    device_nodes: tuple[str, ...] = ()
    """`/dev/davinci0`, …"""
    unreadable_nodes: tuple[str, ...] = ()
    """Those of the device files that this user may not open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Processors: those of the machine, those this process may use, and what they are allowed to do."""

    num_cores: int | None = None
    num_usable: int | None = None
    """Cores in this process's affinity mask."""
    quota: float | None = None
    """Cores' worth of time that the container may use; infinity when unlimited, None when unknown."""
    governors: Mapping[str, int] = field(default_factory=dict)
    """Frequency governor to the number of cores under it; empty where the system shows none."""

    @property
    def effective(self) -> float | None:
        """Cores' worth of time this process can really have, or None when nothing is known."""
        known = [float(value) for value in (self.num_usable or self.num_cores, self.quota) if value is not None]
        return min(known, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A file system that training writes to."""

    path: str
    purpose: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of the machine, or of the container where that is less."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = None
    """Limit of the container; None when there is none or it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine as a training job would find it."""

    environ: Mapping[str, str] = field(default_factory=dict)
    system: str = "Linux"
    python: Python = field(default_factory=Python)
    npu: Npu = field(default_factory=Npu)
    cpu: Cpu = field(default_factory=Cpu)
    memory: Memory = field(default_factory=Memory)
    shared_memory: Volume | None = None
    """`/dev/shm`, through which DataLoader workers hand over their batches."""
    volumes: tuple[Volume, ...] = ()
    open_files: int | None = None
    """Soft limit of open file descriptors; None when unknown."""

    @property
    def has_npu_software(self) -> bool:
        """Whether anything here belongs to a real NPU, so that its settings can matter."""
        npu = self.npu
        return bool(self.python.torch_npu.installed or npu.cann_folders or npu.npu_smi or npu.device_nodes)

    def value(self, name: str) -> str | None:
        """Return a variable without surrounding blanks, or None when it is not set."""
        text = self.environ.get(name)
        return None if text is None else text.strip()
