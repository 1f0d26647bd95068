"""`torch_npu._C`: the few private functions of the vendor's extension that scripts call."""

from __future__ import annotations

from typing import Any

from jumar.npu.api.npu.config import get_option, is_jit_compile_false, remember
from jumar.npu.api.npu.utils import get_cann_version, get_soc_version, is_support_inf_nan
from jumar.npu.runtime.control import (
    current_device,
    device_count,
    init,
    is_bf16_supported,
    set_device,
    synchronize,
)
from jumar.npu.runtime.current_stream import current_stream
from jumar.npu.runtime.graphs import NPUGraph, is_current_stream_capturing
from jumar.npu.runtime.streams import Event, Stream

__all__: list[str] = []

_NPUEventBase, _NPUStreamBase, _NPUGraph = Event, Stream, NPUGraph
_get_cann_version = get_cann_version
_npu_getDevice, _npu_setDevice, _npu_getDeviceCount = current_device, set_device, device_count
_npu_get_soc_version = get_soc_version
_npu_init = init
_npu_isCurrentStreamCapturing = is_current_stream_capturing
_npu_is_bf16_supported = is_bf16_supported
_npu_is_jit_compile_false = is_jit_compile_false
_npu_is_support_inf_nan = is_support_inf_nan
_npu_setOption = remember
_npu_synchronize = synchronize


def _npu_getOption(name: str) -> bytes | None:
    """Return an option's value as bytes, or None."""
    found = get_option(name)
    return None if found is None else found.encode()


def _npu_getCurrentRawStream(device: Any = None) -> int:
    """Return the number of the current stream."""
    return int(current_stream(device).npu_stream)
