"""What the device says it is: the figures of the chosen SoC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jumar.device.emulator.devices import index_from
from jumar.device.emulator.npu.memory import capacity_bytes
from jumar.device.emulator.state import STATE

__all__ = ["get_device_capability", "get_device_name", "get_device_properties"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NPUDeviceProperties:
    """Figures of one device, under the names torch_npu gives them; None where they are not public."""

    name: str
    total_memory: int
    """Bytes."""
    cube_core_num: int | None
    vector_core_num: int | None
    L2_cache_size: int | None
    """Bytes."""


def get_device_name(device: Any = None) -> str:
    """Return the name of the SoC."""
    index_from(device)
    return STATE.soc


def get_device_properties(device: Any = None) -> NPUDeviceProperties:
    """Return the figures of the SoC."""
    index_from(device)
    profile = STATE.profile
    return NPUDeviceProperties(
        name=profile.name,
        total_memory=capacity_bytes(),
        cube_core_num=profile.num_cube_cores,
        vector_core_num=profile.num_vector_cores,
        L2_cache_size=profile.l2_bytes,
    )


def get_device_capability(device: Any = None) -> None:
    """Return None: an NPU has no compute capability in the sense of CUDA."""
    index_from(device)
