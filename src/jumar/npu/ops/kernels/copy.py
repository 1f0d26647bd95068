"""Copies between devices and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core import devices
from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.dispatch import arguments
from jumar.npu.memory import pinned_allocator
from jumar.npu.memory.memory import index_of, require_shape
from jumar.npu.numerics import casts

_CPU = torch.device("cpu")
_call = get_kernel("aten::_to_copy", "CPU").call_boxed
_empty = get_kernel("aten::empty_like", "CPU").call_boxed
_copy = get_kernel("aten::copy_", "CPU").call_boxed


def _to_copy(source: torch.Tensor, *, device: torch.device | None = None, **kwargs: Any) -> torch.Tensor:
    """`_to_copy`: a copy on `device` (default: where the source is), always of new memory."""
    on_npu = not source.is_cpu
    to_npu = on_npu if device is None else device.type == "npu"
    dtype: Any = kwargs.get("dtype")
    is_cast = on_npu and to_npu and dtype is not None and dtype is not source.dtype
    if is_cast:
        kwargs["dtype"] = dtype = casts.replaced(dtype, source.dtype) if device is None else dtype
        casts.check(source.dtype, dtype)
    kwargs["device"] = _CPU if device is None or to_npu else device
    origin = arguments.alias(source) if on_npu else source
    if not to_npu:
        if on_npu and kwargs.get("non_blocking") and kwargs["device"] == _CPU:
            return _to_pinned(origin, dtype, kwargs.get("memory_format"))
        return _call(CPU_KEYS, origin, **kwargs)  # type: ignore[no-any-return]
    index = 0
    if STATE.multiple or (device is not None and device.index):
        index = devices.index_of_argument(device, index_of(source) if on_npu else None) or 0
    require_shape(source.size(), dtype, source, index)
    result = _call(CPU_KEYS, origin, **kwargs)
    if is_cast:
        casts.settle(result, origin)
    return arguments.wrap(result, index)  # type: ignore[no-any-return]


def _to_pinned(origin: torch.Tensor, dtype: Any, memory_format: Any) -> torch.Tensor:
    """Return a copy on the host that may still be under way: in pinned memory, as from any accelerator."""
    if not pinned_allocator.is_installed():
        return _call(CPU_KEYS, origin, dtype=dtype, memory_format=memory_format)  # type: ignore[no-any-return]
    result: torch.Tensor = _empty(CPU_KEYS, origin, dtype=dtype, pin_memory=True, memory_format=memory_format)
    _copy(CPU_KEYS, result, origin)
    return result


KERNELS: dict[str, Callable[..., Any]] = {"aten::_to_copy": _to_copy}
