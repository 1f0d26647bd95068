"""Operators that change which memory a tensor shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumar.device.emulator.memory import index_of
from jumar.device.emulator.plans import CPU_KEYS
from jumar.device.emulator.storage import repoint, resize_kernel, resize_storage

Tensor = torch.Tensor

_set_storage_part = torch.library.get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed


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


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::resize_": resize_kernel,
    "aten::record_stream": _record_stream,
    "aten::set_": _set_nothing,
    "aten::set_.source_Storage": _native("aten::set_.source_Storage"),
    "aten::set_.source_Storage_storage_offset": _set_part,
    "aten::set_.source_Tensor": _native("aten::set_.source_Tensor"),
}
