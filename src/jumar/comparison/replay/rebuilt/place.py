"""Where operators are executed again: in float64 on the CPU, or on a device in their own dtypes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from jumar.base.process.threads import threads
from jumar.comparison.replay.rebuilt.memory import torch_dtype
from jumar.comparison.replay.results import On
from jumar.device import DevicePlan
from jumar.device.plan import Numerics
from jumar.recording import RunInfo
from jumar.soc import DEFAULT_SOC

Precision = Literal["own", "float32", "float64"]

_FLOATS = (
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_COMPLEX = ("complex64", "complex32")
WIDER: dict[Precision, dict[str, torch.dtype]] = {
    "own": {},
    "float32": {**dict.fromkeys(_FLOATS, torch.float32), **dict.fromkeys(_COMPLEX, torch.complex64)},
    "float64": {**dict.fromkeys(_FLOATS, torch.float64), **dict.fromkeys(_COMPLEX, torch.complex128)},
}
"""What a dtype becomes; others stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device and the dtypes there."""

    device: str
    precision: Precision = "own"
    """What narrower floating-point dtypes become, in tensors and in arguments; complex ones likewise."""
    num_threads: int = 0
    """Threads of the CPU's kernels; 0 leaves them. Sums are split by their number."""
    chip: str = ""
    """SoC of the emulated NPU; empty where no emulator is used."""
    exact: bool = False
    """The emulated NPU computes as the CPU does, in any dtype."""

    def dtype(self, name: str) -> torch.dtype:
        """Return the dtype that a tensor or argument of dtype `name` has here."""
        return WIDER[self.precision].get(name) or torch_dtype(name)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Run what is inside without a graph, with the place's threads, default dtype and chip."""
        default = torch.get_default_dtype()
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            if self.chip:
                from jumar.device import emulate

                numerics: Numerics = "exact" if self.exact else "strict"
                stack.enter_context(emulate(self.chip, numerics=numerics, unsupported="fallback"))
            if self.num_threads:
                stack.enter_context(threads(self.num_threads))
            try:
                if self.precision != "own":
                    torch.set_default_dtype(torch_dtype(self.precision))
                yield
            finally:
                torch.set_default_dtype(default)


TRUTH = Place(device="cpu", precision="float64")
OWN = Place(device="cpu")


def place_of(on: On, chip: str) -> Place | None:
    """Start the device that is compared with the truth and return it; None for the truth alone.

    `chip` is the SoC of an emulated NPU. Raises DeviceError.
    """
    if on == "cpu64":
        return None
    if on == "cpu":
        return OWN
    from jumar.device import activate

    active = activate(DevicePlan(kind=on, soc=chip) if on == "npu" else DevicePlan(kind=on))
    return Place(device=active.device_type, chip=chip if "emulated" in active.description else "")


def with_threads_of(place: Place, info: RunInfo) -> Place:
    """Return the place with as many threads as a run on the CPU had."""
    threads = info.settings.get("num_threads")
    return replace(place, num_threads=threads) if isinstance(threads, int) and place.device == "cpu" else place


def of_vendor(place: Place, chip: str) -> Place:
    """Return where the vendor's own operators run in place of the CPU: the emulated NPU with the CPU's arithmetic."""
    from jumar.device import activate

    active = activate(DevicePlan(real="never"))
    return replace(place, device=active.device_type, chip=chip, exact=True)


def chip_of(info: RunInfo) -> str:
    """Return the SoC that was recorded, or the usual one."""
    return info.soc if info.soc.startswith("Ascend") else DEFAULT_SOC
