"""`torch_npu.utils`."""

from __future__ import annotations

from jumar.device.emulator.npu.utils import get_cann_version
from jumar.device.emulator.torch_npu_utils.affinity import reset_thread_affinity, set_thread_affinity
from jumar.device.emulator.torch_npu_utils.combine_tensors import (
    get_part_combined_tensor,
    is_combined_tensor_valid,
    npu_combine_tensors,
)
from jumar.device.emulator.torch_npu_utils.flops_count import FlopsCounter
from jumar.device.emulator.torch_npu_utils.serialization import save_async

__all__ = [
    "FlopsCounter",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "reset_thread_affinity",
    "save_async",
    "set_thread_affinity",
]
