"""`Host`: one machine as plain values, the subject of the rules about the environment.

A test can plant any fault in it. None means that the value could not be read; it never means that all is well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jumar.advise.doctor.machine.parts import (
    Clock,
    DeviceProcess,
    Kernel,
    Limits,
    Network,
    Placement,
    Power,
    RankTable,
    Smi,
    Software,
    Volume,
)
from jumar.base.host import Cores, Memory, Pressure

__all__ = ["Host", "Npu", "Package", "Python", "Volume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Python package as a fresh interpreter sees it."""

    installed: bool = False
    version: str = ""
    error: str | None = None
    """What importing it raised; None when it imported or was not tried."""

    @property
    def usable(self) -> bool:
        """Whether it is installed and did not fail to import."""
        return self.installed and self.error is None

    @property
    def release(self) -> tuple[int, int] | None:
        """Major and minor of the version (`2.13.0+cpu`, `2.1.0.rc1`); None when it does not start with two numbers."""
        match = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """The interpreter, torch and torch_npu."""

    version: str = ""
    torch: Package = field(default_factory=Package)
    torch_npu: Package = field(default_factory=Package)
    num_npus: int | None = None
    """Devices that `torch.npu.device_count()` reports; None when torch_npu does not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Npu:
    """The vendor's software and device files on this machine."""

    cann_folders: tuple[str, ...] = ()
    """CANN installations at the usual places."""
    missing_folders: tuple[str, ...] = ()
    """Folders that an environment variable of CANN names and that do not exist."""
    npu_smi: str | None = None
    """Path of the driver's tool; None when it is not there."""
    device_nodes: tuple[str, ...] = ()
    """`/dev/davinci0`, …"""
    unreadable_nodes: tuple[str, ...] = ()
    """Device files that this user may not open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine as a training job would find it."""

    environ: Mapping[str, str] = field(default_factory=dict)
    system: str = "Linux"
    python: Python = field(default_factory=Python)
    npu: Npu = field(default_factory=Npu)
    cores: Cores = field(default_factory=Cores)
    governors: Mapping[str, int] = field(default_factory=dict)
    """Frequency governor to the number of cores under it; empty where the system shows none."""
    memory: Memory = field(default_factory=Memory)
    shared_memory: Volume | None = None
    """`/dev/shm`, through which DataLoader workers hand over their batches."""
    volumes: tuple[Volume, ...] = ()
    open_files: int | None = None
    """Soft limit of open file descriptors; None when unknown."""
    power: Power = field(default_factory=Power)
    pressure: Pressure | None = None
    limits: Limits = field(default_factory=Limits)
    kernel: Kernel = field(default_factory=Kernel)
    placement: Placement = field(default_factory=Placement)
    software: Software = field(default_factory=Software)
    smi: Smi | None = None
    """What the driver's tool says; None when it is not there or does not answer."""
    holders: tuple[DeviceProcess, ...] | None = None
    """Other processes with a device file open, as far as this user may see; None when nothing could be looked at."""
    network: Network = field(default_factory=Network)
    clock: Clock = field(default_factory=Clock)
    rank_table: RankTable | None = None

    @property
    def has_npu_software(self) -> bool:
        """Whether the machine has any software or device file of a real NPU, so that its settings matter."""
        npu = self.npu
        return bool(self.python.torch_npu.installed or npu.cann_folders or npu.npu_smi or npu.device_nodes)

    def value(self, name: str) -> str | None:
        """Return a variable without surrounding blanks, or None when it is not set."""
        text = self.environ.get(name)
        return None if text is None else text.strip()

    def number(self, name: str) -> int | None:
        """Return a variable that is a whole number, else None."""
        text = self.value(name) or ""
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def num_processes(self) -> int:
        """How many training processes the environment speaks of on this machine, at least 1."""
        return max(1, self.number("LOCAL_WORLD_SIZE") or 1)

    @property
    def num_nodes(self) -> int:
        """How many machines the environment speaks of, at least 1."""
        world = self.number("WORLD_SIZE") or self.number("RANK_SIZE") or 1
        local = self.number("LOCAL_WORLD_SIZE")
        named = max(self.number("NNODES") or 1, self.number("GROUP_WORLD_SIZE") or 1, self.number("SLURM_NNODES") or 1)
        return max(named, -(-world // local) if local else 1)

    @property
    def is_distributed(self) -> bool:
        """Whether the environment speaks of more than one rank."""
        world = self.number("WORLD_SIZE") or self.number("RANK_SIZE") or 1
        return world > 1 or self.num_nodes > 1 or self.num_processes > 1 or self.rank_table is not None

    @property
    def num_devices(self) -> int | None:
        """NPUs that a job here can use, None when unknown."""
        return self.python.num_npus or len(self.npu.device_nodes) or None
