"""Pinned host memory. The emulated device copies from any memory alike, so a pinned tensor is one that says so."""

from __future__ import annotations

import weakref
from typing import Any

import torch

Tensor = torch.Tensor

_pinned: dict[int, weakref.ref[torch.UntypedStorage]] = {}
"""Pinned storages by the address of their StorageImpl."""

_clone = torch.library.get_kernel("aten::clone", "CPU").call_boxed
_CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _is_pinned(tensor: Tensor, _device: Any = None) -> bool:
    """`is_pinned`, for CPU tensors."""
    return bool(_pinned) and tensor.untyped_storage()._cdata in _pinned


def _pin_memory(tensor: Tensor, _device: Any = None) -> Tensor:
    """`_pin_memory`: a copy in pinned memory."""
    copy: Tensor = _clone(_CPU_KEYS, tensor)
    storage = copy.untyped_storage()
    key = storage._cdata
    _pinned[key] = weakref.ref(storage, lambda _: _pinned.pop(key, None))
    return copy


def _refuse(tensor: Tensor, _device: Any = None) -> Tensor:
    raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")


def register(aten: Any) -> None:
    """Register the kernels for CPU tensors, for which C++ would ask an allocator that there is not."""
    aten.impl("is_pinned", "CPU", _is_pinned, False)
    aten.impl("_pin_memory", "CPU", _pin_memory, False)
    aten.impl("_pin_memory", "PrivateUse1", _refuse, False)
