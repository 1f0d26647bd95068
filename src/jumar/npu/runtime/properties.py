"""The properties of the device: the figures of the chosen SoC."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from typing import Any

from jumar.npu.core.state import STATE
from jumar.npu.memory.memory import capacity_bytes
from jumar.npu.runtime.control import checked_index

__all__ = ["get_device_capability", "get_device_name", "get_device_properties"]

CAPABILITY = "TORCH_NPU_DEVICE_CAPABILITY"


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
    multi_processor_count: int | None
    """The cube cores: what scripts made for other devices multiply by."""
    uuid: uuid.UUID
    """Made of the SoC's name and the index: the same in every process."""
    major: int | None = None
    minor: int | None = None
    is_multi_gpu_board: int | None = None
    is_integrated: int | None = None
    max_threads_per_multi_processor: int | None = None
    warp_size: int | None = None
    regs_per_multiprocessor: int | None = None
    gcnArchName: str | None = None


def get_device_name(device_name: Any = None) -> str:
    """Return the name of the SoC. Raises AssertionError for a device that there is not."""
    checked_index(device_name)
    return STATE.soc


def get_device_properties(device_name: Any = None) -> NPUDeviceProperties:
    """Return the figures of the SoC. Raises AssertionError for a device that there is not."""
    index = checked_index(device_name)
    profile = STATE.profile
    return NPUDeviceProperties(
        name=profile.name,
        total_memory=capacity_bytes(),
        cube_core_num=profile.num_cube_cores,
        vector_core_num=profile.num_vector_cores,
        L2_cache_size=profile.l2_bytes,
        multi_processor_count=profile.num_cube_cores,
        uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"{profile.name}:{index}"),
    )


def get_device_capability(device: Any = None) -> tuple[int, int] | None:
    """Return what the variable TORCH_NPU_DEVICE_CAPABILITY (`9.0`) says, else None: an NPU has no such number.

    The vendor's function also takes any `device`, and warns that the number does not describe the device.
    """
    del device
    match = re.fullmatch(r"(\d+)\.(\d+)", os.environ.get(CAPABILITY, ""))
    return (int(match[1]), int(match[2])) if match else None
