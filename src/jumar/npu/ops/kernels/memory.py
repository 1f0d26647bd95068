"""Operators that make tensors of nothing, or change which memory a tensor shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumar.npu.core import devices
from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.retag import take
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.dispatch import arguments
from jumar.npu.memory.memory import index_of, require_shape, track
from jumar.npu.memory.storage import resize_kernel, resize_storage

Tensor = torch.Tensor

_set_storage_part = get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed


def _native(name: str) -> Callable[..., Any]:
    """PyTorch's own CPU kernel, which only handles geometry and so works on an npu tensor itself."""
    call = get_kernel(name, "CPU").call_boxed

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return call(CPU_KEYS, *args, **kwargs)

    return kernel


def _set_nothing(target: Tensor) -> Tensor:
    """`set_()`: an empty tensor with memory of its own."""
    npu = take(torch.empty(0, dtype=target.dtype, device="cpu"))
    track(npu, index_of(target))
    found: Tensor = _set_storage_part(CPU_KEYS, target, npu.untyped_storage(), 0, [0], [])
    return found


def _set_part(
    target: Tensor, source: torch.UntypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int] = ()
) -> Tensor:
    """`set_` to a part of a storage, which grows when the part reaches beyond its end."""
    last = sum((num - 1) * step for num, step in zip(size, stride, strict=True)) if stride else math.prod(size) - 1
    needed = 0 if 0 in size else (storage_offset + last + 1) * target.element_size()
    if needed > source.nbytes():
        resize_storage(source, needed)
    found: Tensor = _set_storage_part(CPU_KEYS, target, source, storage_offset, size, stride)
    return found


def _record_stream(target: Tensor, stream: Any) -> None:
    """`record_stream`: nothing to remember, because memory is never reused while a stream is at work."""


def _zeros(size: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> torch.Tensor:
    """`_efficientzerotensor`: zeros with memory. PyTorch's saves the memory with a tensor that has none,
    which only kernels that know of it can read."""
    index = (devices.index_of_argument(device, None) if STATE.multiple else 0) or 0
    require_shape(size, dtype, None, index)
    return arguments.wrap(torch.zeros(list(size), dtype=dtype, device="cpu"), index)  # type: ignore[no-any-return]


def _making(name: str) -> Callable[..., Any]:
    """Kernel of `empty` or `empty_strided`, which every composed factory calls, with no detour on the way."""
    call = get_kernel(name, "CPU").call_boxed

    def kernel(*args: Any, device: Any = None, pin_memory: bool | None = None, **kwargs: Any) -> torch.Tensor:
        if pin_memory:
            raise RuntimeError("Only dense CPU tensors can be pinned")
        index = 0
        if STATE.multiple or (device is not None and device.index):
            index = devices.index_of_argument(device, None) or 0
        require_shape(args[0] if args else kwargs["size"], kwargs.get("dtype"), None, index)
        result = call(CPU_KEYS, *args, **kwargs)
        npu = take(result)
        track(npu, index)
        return npu

    return kernel


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::resize_": resize_kernel,
    "aten::record_stream": _record_stream,
    "aten::set_": _set_nothing,
    "aten::set_.source_Storage": _native("aten::set_.source_Storage"),
    "aten::set_.source_Storage_storage_offset": _set_part,
    "aten::set_.source_Tensor": _native("aten::set_.source_Tensor"),
    "aten::_efficientzerotensor": _zeros,
    "aten::empty.memory_format": _making("aten::empty.memory_format"),
    "aten::empty_strided": _making("aten::empty_strided"),
}
