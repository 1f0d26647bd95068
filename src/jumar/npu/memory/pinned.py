"""Pinned host memory. The emulated device copies from any memory alike, so pinning only marks a tensor."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.memory import pinned_allocator
from jumar.npu.memory.allocator.stats import Tally

Tensor = torch.Tensor

_pinned: dict[int, weakref.ref[torch.UntypedStorage]] = {}
"""Storages pinned by copying, by the address of their StorageImpl."""
_NUM, _SIZE = 0, 1
_tally = Tally()
"""Storages pinned by `pin_memory`, and their bytes. What `pin_memory=True` makes in C++ is not seen here."""

_clone = get_kernel("aten::clone", "CPU").call_boxed
_CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _is_pinned(tensor: Tensor, _device: Any = None) -> bool:
    """`is_pinned`, for CPU tensors."""
    storage = tensor.untyped_storage()
    return storage._cdata in _pinned or pinned_allocator.is_from_pinned(storage)


def _pin_memory(tensor: Tensor, _device: Any = None) -> Tensor:
    """`_pin_memory`: a copy in pinned memory."""
    copy: Tensor = _clone(_CPU_KEYS, tensor)
    storage = copy.untyped_storage()
    key, size = storage._cdata, _rounded(storage.nbytes())

    def unpin(_: Any) -> None:
        _pinned.pop(key, None)
        _count(-1, -size)

    _count(1, size)
    _pinned[key] = weakref.ref(storage, unpin)
    return copy


def _rounded(size: int) -> int:
    """Return the power of two that the allocator of pinned memory asks the driver for."""
    return 1 << max(size - 1, 0).bit_length()


def _count(number: int, size: int) -> None:
    _tally.add(_NUM, number)
    _tally.add(_SIZE, size)


def statistics() -> dict[str, Any]:
    """Return the statistics of pinned memory under the vendor's names; no time is spent on pinning here."""
    number, size = _tally.figures(_NUM), _tally.figures(_SIZE)
    no_time = dict.fromkeys(("total", "max", "min", "count", "avg"), 0)
    return {
        "allocations": number,
        "active_requests": number,
        "allocated_bytes": size,
        "active_bytes": size,
        "num_host_alloc": number["allocated"],
        "num_host_free": number["freed"],
        "host_alloc_time": no_time,
        "host_free_time": no_time,
    }


def reset_peaks() -> None:
    """Let the peaks begin again at what is there now."""
    _tally.reset_peak()


def reset_sums() -> None:
    """Let the sums begin again at 0."""
    _tally.reset_sums()


def _refuse(tensor: Tensor, _device: Any = None) -> Tensor:
    raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")


def register(aten: Any) -> None:
    """Register the kernels for CPU tensors, for which C++ would ask an allocator that there is not."""
    aten.impl("is_pinned", "CPU", _is_pinned, False)
    aten.impl("_pin_memory", "CPU", _pin_memory, False)
    aten.impl("_pin_memory", "PrivateUse1", _refuse, False)
