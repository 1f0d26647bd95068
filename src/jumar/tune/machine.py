"""What a measurement holds for: the device and the versions that made it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jumar.errors import UsageError
from jumar.native import compiler, cpuinfo
from jumar.tune.task import digest

COMPILER_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Device and versions; every field is part of a bank entry's key."""

    device: str
    model: str
    """The processor's own name."""
    capability: str
    """Widest vector instructions PyTorch uses here, e.g. `AVX512`."""
    num_threads: int
    """Threads PyTorch uses by default."""
    torch: str
    compiler: str
    """First line of the C++ compiler's version; empty when there is none."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Machine:
        """Rebuild a machine from its `asdict`."""
        return cls(**data)

    @property
    def key(self) -> str:
        """SHA-256 of the fields' canonical JSON."""
        return digest(asdict(self))

    @property
    def hardware(self) -> tuple[str, str, str]:
        """Device, processor and instructions: what stays when versions and threads change."""
        return self.device, self.model, self.capability

    def __str__(self) -> str:
        return f"{self.device} ({self.model}, {self.capability}, {self.num_threads} threads, torch {self.torch})"


def this_machine(device: str = "cpu", *, with_compiler: bool = True) -> Machine:
    """Return the machine this process runs on; without its C++ compiler, which takes a moment to ask, on request.

    Raises UsageError for a device that is not measured: a policy is never claimed for a device it was
    not measured on.
    """
    if device != "cpu":
        raise UsageError(f'"--device {device}" must be cpu, the device that is measured so far. Leave it out.')
    import torch

    return Machine(
        device=device,
        model=_processor(),
        capability=torch.backends.cpu.get_cpu_capability(),
        num_threads=torch.get_num_threads(),
        torch=torch.__version__,
        compiler=compiler_version() if with_compiler else "",
    )


def compiler_version() -> str:
    """Return the first line of `$CXX --version` (or g++, clang++, c++); empty without a working compiler."""
    command = compiler()
    if not command:
        return ""
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=COMPILER_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.partition("\n")[0].strip()


def _processor() -> str:
    names = (line.partition(":")[2].strip() for line in cpuinfo().splitlines() if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
