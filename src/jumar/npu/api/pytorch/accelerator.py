"""`torch.accelerator` for the emulated device.

Its functions call C++, which knows one device without streams, events or allocator. The calls that
would fail or would not know logical devices are answered here.
"""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import torch
from torch._C._dynamo import eval_frame

from jumar.npu.api import npu
from jumar.npu.core import devices
from jumar.npu.core.state import CURRENT
from jumar.npu.runtime.current_stream import current_stream

_DTYPES = frozenset(
    value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype) and not re.fullmatch(r"torch\.(q\w+|bits\w+|u?int[1-7])", str(value))
)
"""torch_npu leaves the question of a device's capability to PyTorch, which then names every dtype."""


def _exchange(index: int) -> int:
    previous = CURRENT.device
    if index >= 0:
        devices.set_current(devices.index_from(index))
    return previous


def _answers() -> dict[str, Any]:
    return {
        "_accelerator_deviceCount": npu.device_count,
        "_accelerator_getDeviceIndex": npu.current_device,
        "_accelerator_setDeviceIndex": npu.set_device,
        "_accelerator_exchangeDevice": _exchange,
        "_accelerator_maybeExchangeDevice": _exchange,
        "_accelerator_synchronizeDevice": npu.synchronize,
        "_accelerator_getStream": current_stream,
        "_accelerator_setStream": npu.set_stream,
        "_accelerator_getDeviceCapability": lambda _index: {"supported_dtypes": set(_DTYPES)},
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_emptyCache": npu.empty_cache,
        "_accelerator_emptyHostCache": npu.empty_cache,
        "_accelerator_getDeviceStats": npu.memory_stats_as_nested_dict,
        "_accelerator_resetPeakStats": npu.reset_peak_memory_stats,
        "_accelerator_resetAccumulatedStats": npu.reset_accumulated_memory_stats,
        "_accelerator_getMemoryInfo": npu.mem_get_info,
    }


def install() -> None:
    """Let `torch.accelerator` answer for the logical devices."""
    for name, answer in _answers().items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, answer)
            _leave_to_python(answer)


def _leave_to_python(answer: Any) -> None:
    """Keep TorchDynamo from compiling a function that stands for one of C++.

    Its guards ask for the current stream: compiled, the answer would be guarded by itself, without end. Earlier
    releases, which cannot be told so, have no such guards.
    """
    if isinstance(answer, FunctionType) and hasattr(eval_frame, "set_code_exec_strategy"):
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(answer.__code__, eval_frame._FrameExecStrategy(skip, skip))
