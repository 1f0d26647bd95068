"""Operators that change which memory a tensor shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator.memory import index_of
from jumar.device.emulator.plans import CPU_KEYS
from jumar.device.emulator.storage import repoint, resize_kernel

Tensor = torch.Tensor


def _native(name: str) -> Callable[..., Any]:
    """PyTorch's own CPU kernel, which only handles geometry and so works on an npu tensor itself."""
    call = torch.library.get_kernel(name, "CPU").call_boxed

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return call(CPU_KEYS, *args, **kwargs)

    return kernel


def _set_nothing(target: Tensor) -> Tensor:
    """`set_()`: an empty tensor with memory of its own."""
    repoint(target, torch.empty(0, dtype=target.dtype), index_of(target))
    return target


def _record_stream(target: Tensor, stream: Any) -> None:
    """`record_stream`: nothing to remember, because memory is never reused while a stream is at work."""


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::resize_": resize_kernel,
    "aten::record_stream": _record_stream,
    "aten::set_": _set_nothing,
    "aten::set_.source_Storage": _native("aten::set_.source_Storage"),
    "aten::set_.source_Storage_storage_offset": _native("aten::set_.source_Storage_storage_offset"),
    "aten::set_.source_Tensor": _native("aten::set_.source_Tensor"),
}
