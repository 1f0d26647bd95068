"""`torch_npu.utils`."""

from __future__ import annotations

from jumar.npu.api.npu.utils import get_cann_version
from jumar.npu.api.utils.affinity import reset_thread_affinity, set_thread_affinity
from jumar.npu.api.utils.combine_tensors import (
    get_part_combined_tensor,
    is_combined_tensor_valid,
    npu_combine_tensors,
)
from jumar.npu.api.utils.flops_count import FlopsCounter
from jumar.npu.api.utils.serialization import save_async

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
