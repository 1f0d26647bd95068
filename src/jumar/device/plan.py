"""`DevicePlan`: which device a run asks for, in a form that child processes inherit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from jumar.base.errors import DeviceError
from jumar.npu.core.state import Numerics, Unsupported
from jumar.soc.profiles import get_soc

__all__ = ["MAX_DEVICES", "PLUGIN_VARIABLE", "VARIABLE", "ActiveDevice", "DevicePlan"]
__all__ += ["Kind", "Numerics", "Real", "Unsupported", "is_torch_npu_installed"]

VARIABLE = "JUMAR_DEVICE_PLAN"
"""Environment variable that carries a plan, as JSON, to child processes."""

PLUGIN_VARIABLE = "JUMAR_EMULATOR_PLUGIN"
"""`module:function`, called without argument once the emulated device is up."""

Kind = Literal["cpu", "cuda", "npu", "cuda-stand-in"]
Real = Literal["auto", "never", "require"]

MAX_DEVICES = 64

_SHIM = str(Path(__file__).parent / "import_shim")
"""On the module path of child processes: a `torch_npu` that imports torch, whose autoload brings the emulator up."""


_GPUS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/kfd")
"""What is there where a driver of NVIDIA's, of Windows' Linux, or of AMD's has a GPU."""


def is_torch_npu_installed() -> bool:
    """Tell whether the vendor's torch_npu can be found; what answers for it in an emulated process does not count."""
    finders = (finder for finder in sys.meta_path if not type(finder).__module__.startswith("jumar."))
    specs = (finder.find_spec("torch_npu", None) for finder in finders)
    return any(
        spec is not None and spec.origin is not None and str(Path(spec.origin).parent) != _SHIM for spec in specs
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePlan:
    """The device a run wants. Raises DeviceError when a field breaks its rule."""

    kind: Kind = "npu"
    """`cuda-stand-in` runs a CUDA script unchanged on the emulated accelerator with CPU kernels."""
    soc: str = "Ascend910B1"
    real: Real = "auto"
    """`auto`: the vendor's torch_npu when it imports, else the emulator; `require`: no emulator."""
    num_devices: int = 8
    """Logical devices of the emulator; an Atlas server has eight."""
    numerics: Numerics = "strict"
    """`strict`: the emulator rounds, saturates and refuses dtypes as the SoC does; `exact`: the CPU's bits."""
    unsupported: Unsupported = "warn"
    """What the emulator does with an operator that has no NPU kernel: `warn`, as the vendor's build does (run it on
    the host with one warning, or raise where that build raises); `error`: raise; `fallback`: run it silently."""
    memory_bytes: int | None = None
    """Memory of one emulated device; None: what the SoC has."""
    single_device: bool = False
    """Hold each thread to the first emulated device it uses, as the first releases of torch_npu did."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise DeviceError(f"a device kind must be one of {', '.join(get_args(Kind))}; got {self.kind!r}.")
        if self.real not in get_args(Real):
            raise DeviceError(f"`real` must be one of {', '.join(get_args(Real))}; got {self.real!r}.")
        if self.numerics not in get_args(Numerics):
            raise DeviceError(f"`numerics` must be one of {', '.join(get_args(Numerics))}; got {self.numerics!r}.")
        if self.unsupported not in get_args(Unsupported):
            choices = ", ".join(get_args(Unsupported))
            raise DeviceError(f"`unsupported` must be one of {choices}; got {self.unsupported!r}.")
        if self.memory_bytes is not None and not (isinstance(self.memory_bytes, int) and self.memory_bytes >= 1):
            raise DeviceError(
                "`memory_bytes` must be a positive whole number, or None for the SoC's own; "
                f"got {self.memory_bytes!r}. For 32 GB give 32 * 2**30."
            )
        if not (isinstance(self.num_devices, int) and 1 <= self.num_devices <= MAX_DEVICES):
            raise DeviceError(
                f"`num_devices` must be a whole number between 1 and {MAX_DEVICES}; got {self.num_devices!r}."
            )
        get_soc(self.soc)

    def to_environment(self) -> dict[str, str]:
        """Return the variables that make a child process activate this plan, also one that imports torch_npu first."""
        return {VARIABLE: json.dumps(asdict(self)), **self._module_path(), **self.hidden_gpus()}

    def hidden_gpus(self) -> dict[str, str]:
        """Return the variable that hides GPUs of this machine from a process with the emulated NPU; {} without any.

        A machine with NPUs has none, and PyTorch's autograd takes one accelerator a process.
        """
        if self._is_emulated_npu() and any(Path(place).exists() for place in _GPUS):
            return {"CUDA_VISIBLE_DEVICES": "-1"}
        return {}

    def _is_emulated_npu(self) -> bool:
        return self.kind == "npu" and self.real != "require" and (self.real == "never" or not is_torch_npu_installed())

    def _module_path(self) -> dict[str, str]:
        path = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
        if _SHIM in path or not self._is_emulated_npu():
            return {}
        return {"PYTHONPATH": os.pathsep.join([*path, _SHIM])}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> DevicePlan | None:
        """Return the plan in these variables, or None. Raises DeviceError when it cannot be read."""
        text = environ.get(VARIABLE)
        if not text:
            return None
        try:
            data = json.loads(text)
        except ValueError as error:
            raise DeviceError(f"{VARIABLE} must hold a JSON object; got {text[:80]!r}. Unset it to go on.") from error
        known = {item.name for item in fields(cls)}
        if not isinstance(data, dict) or not set(data) <= known:
            raise DeviceError(f"{VARIABLE} may hold only {', '.join(sorted(known))}; got {text[:80]!r}.")
        return cls(**data)


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveDevice:
    """What `activate` brought up in this process."""

    device_type: str
    """The name to pass to `torch.device`: `npu`, `cpu`, `cuda`."""
    description: str
    """For people: `npu (emulated)`, `npu`, `cuda (CPU kernels standing in)`."""
    soc: str = ""
    torch_npu_version: str = ""
    """The vendor's version, or the one the emulator answers with."""
