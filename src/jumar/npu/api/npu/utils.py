"""`torch.npu.utils`: the device calls once more, as in the vendor's module, and checks of the hardware."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import torch.distributed as dist

from jumar.npu.api.npu.deterministic import set_op_timeout_ms
from jumar.npu.core.devices import index_from
from jumar.npu.core.state import STATE
from jumar.npu.dump import finalize_dump, init_dump, set_dump
from jumar.npu.runtime.control import (
    current_device,
    device,
    device_of,
    is_bf16_supported,
    set_device,
    synchronize,
)
from jumar.npu.runtime.current_stream import (
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from jumar.npu.runtime.memory import ipc_collect
from jumar.npu.runtime.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_support_inf_nan,
    npu_check_overflow,
)
from jumar.npu.runtime.sync import get_sync_debug_mode, set_sync_debug_mode

__all__ = [
    "StreamContext",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "finalize_dump",
    "get_cann_version",
    "get_npu_overflow_flag",
    "get_sync_debug_mode",
    "init_dump",
    "ipc_collect",
    "is_bf16_supported",
    "is_support_inf_nan",
    "npu_check_overflow",
    "set_device",
    "set_dump",
    "set_op_timeout_ms",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "stress_detect",
    "synchronize",
]

CANN_VERSION = "9.0.0"
"""What version checks are answered: the CANN that the vendor's installation guide names. There is none here."""


def get_cann_version(module: str = "CANN") -> str:  # noqa: ARG001 (all parts of CANN have its version)
    """Return the version that the emulator answers with; see `CANN_VERSION`."""
    return CANN_VERSION


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """Return whether the emulator answers as this version of CANN or a later one."""
    return _numbers(get_cann_version(module)) >= _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    return found + (0,) * (3 - len(found))


def get_soc_version() -> int:
    """Return torch_npu's own number of the SoC, which scripts compare (Ascend910B1 is 220)."""
    return STATE.profile.torch_npu_order


def current_blas_handle() -> None:
    """Return None after a warning, as the vendor's function does."""
    warnings.warn("NPU does not use blas handle.", stacklevel=2)


def check_uce_in_memory(device_id: int) -> int:
    """Return 0: the memory of the emulated device has no uncorrectable errors."""
    index_from(device_id)
    return 0


def stress_detect(detect_type: str = "aic") -> int:
    """Return 0, no fault found, or 1 after a warning where the vendor's function would not start.

    `hccs` needs an initialised process group and the variables that torchrun sets.
    """
    if detect_type not in ("aic", "hccs"):
        warnings.warn("Detect_type should be `aic` or `hccs`.", stacklevel=2)
        return 1
    if detect_type == "hccs":
        if not (dist.is_available() and dist.is_initialized()):
            warnings.warn("torch.distributed should be initialized for p2p detection.", stacklevel=2)
            return 1
        if not {"RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"} <= os.environ.keys():
            names = "'RANK', 'LOCAL_WORLD_SIZE' or 'WORLD_SIZE'"
            warnings.warn(f"Environment variables {names} are not set.", stacklevel=2)
            return 1
    return 0


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the logical index of `device`, as torch.cuda._utils._get_device_index does."""
    if allow_cpu and str(device) == "cpu":
        return -1
    if device is None and not optional:
        raise ValueError("Expected a torch.device with a specified index or an integer, but got: None")
    return index_from(device)
