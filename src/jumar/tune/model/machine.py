"""What a measurement holds for: the device and the versions that made it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from jumar.base.errors import UsageError
from jumar.base.native import compiler, cpuinfo
from jumar.device import DevicePlan
from jumar.device.plan import is_torch_npu_installed
from jumar.soc.profiles import get_soc
from jumar.tune.model.task import digest

ESTIMATOR = "Jumar 0.1.0"
"""What makes the estimates of a chip: the release whose time model it is. A change of that model raises it, because
plans that were found by other estimates do not hold."""
COMPILER_TIMEOUT_S = 20
ESTIMATE = "estimate"
"""The capability of a machine whose times no measurement gives."""


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
    """First line of the C++ compiler's version; empty when there is none. Of an estimate: the version of its model."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Machine:
        """Rebuild a machine from its `asdict`."""
        return cls(**data)

    @property
    def key(self) -> str:
        """SHA-256 of the fields' canonical JSON."""
        return digest(asdict(self))

    @property
    def target(self) -> str:
        """The device as `--device` names it: `cpu`, `npu:Ascend910B1`."""
        return f"{self.device}:{self.model}" if self.is_estimate else self.device

    @property
    def is_estimate(self) -> bool:
        """Whether times are estimates of an analytic model: nothing is measured."""
        return self.capability == ESTIMATE

    @property
    def hardware(self) -> tuple[str, str, str]:
        """Device, processor and instructions: what stays when versions and threads change."""
        return self.device, self.model, self.capability

    def __str__(self) -> str:
        if self.is_estimate:
            return f"emulated {self.device} ({self.model}, estimated by {self.compiler}, torch {self.torch})"
        return f"{self.device} ({self.model}, {self.capability}, {self.num_threads} threads, torch {self.torch})"


def this_machine(device: str = "cpu", *, with_compiler: bool = True) -> Machine:
    """Return the machine this process runs on; without its C++ compiler, which takes a moment to ask, on request.

    `npu:SOC` is the emulated NPU, whose times are estimated, and so is `npu` where the vendor's torch_npu is not
    installed. Raises UsageError for a device that is not here or not known: a policy is never claimed for a device it
    was not measured on; DeviceError for a chip that is not known.
    """
    kind, _, soc = device.partition(":")
    if kind == "npu" and (soc or not is_torch_npu_installed()):
        return emulated_npu(soc or DevicePlan().soc)
    if device in {"cuda", "npu"}:
        return _accelerator(device)
    if device != "cpu":
        raise UsageError(
            f'"--device {device}" must be cpu, cuda or npu, which are measured, or npu:SOC, the emulated NPU, whose '
            "times are estimated (those of npu, too, without torch_npu)."
        )
    import torch

    return Machine(
        device=device,
        model=_processor(),
        capability=torch.backends.cpu.get_cpu_capability(),
        num_threads=torch.get_num_threads(),
        torch=torch.__version__,
        compiler=compiler_version() if with_compiler else "",
    )


def emulated_npu(soc: str) -> Machine:
    """Return the emulated NPU with this chip. Raises DeviceError for a chip that is not known."""
    import torch

    return Machine(
        device="npu",
        model=get_soc(soc).name,
        capability=ESTIMATE,
        num_threads=1,
        torch=torch.__version__,
        compiler=ESTIMATOR,
    )


def _accelerator(device: str) -> Machine:
    """Return the first CUDA device, or the first NPU by torch_npu. Raises UsageError when there is none."""
    import torch

    module: Any = torch.get_device_module(device) if hasattr(torch, device) else None
    if module is None or not module.is_available():
        raise UsageError(f'PyTorch finds no device for "--device {device}" on this machine. Leave it out for the CPU.')
    return Machine(
        device=device,
        model=str(module.get_device_name(0)),
        capability=_instructions(device, module),
        num_threads=torch.get_num_threads(),
        torch=torch.__version__,
        compiler=compiler_version(),
    )


def _instructions(device: str, module: Any) -> str:
    """Return `sm_90` of a GPU, the version of torch_npu of an NPU."""
    if device == "cuda":
        return "sm_{}{}".format(*module.get_device_capability(0))
    return f"torch_npu {version('torch_npu')}"


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
