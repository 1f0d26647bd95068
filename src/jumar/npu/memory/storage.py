"""Let npu tensors change the memory they point to: `resize_`, `set_`, untyped storages."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from jumar.npu.core.devices import index_from
from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.retag import learn_layout, take, to_npu
from jumar.npu.core.state import STATE
from jumar.npu.memory import memory, pinned_allocator, storage_swap
from jumar.npu.memory.memory import track

Tensor = torch.Tensor

_set = torch.library.get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed
_resize = torch.library.get_kernel("aten::resize_", "CPU").call_boxed


def repoint(target: Tensor, source: Tensor, index: int = 0) -> None:
    """Make the npu tensor `target` show the CPU tensor `source`: its memory, shape and strides.

    `source` must not be an alias of `target` itself: see `reshape`.
    """
    npu = to_npu(source)
    track(npu, index)
    _set(CPU_KEYS, target, npu.untyped_storage(), 0, list(source.shape), list(source.stride()))


def reshape(target: Tensor, size: Any, stride: Any) -> None:
    """Give the npu tensor `target` another geometry over the memory it has."""
    _set(CPU_KEYS, target, target.untyped_storage(), target.storage_offset(), list(size), list(stride))


def resize(target: Tensor, size: list[int], memory_format: torch.memory_format | None = None) -> Tensor:
    """`resize_`: the storage grows where its memory does not suffice, for all tensors that share it."""
    shape = torch.empty(size, dtype=target.dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    needed = (shape.numel() + target.storage_offset()) * target.element_size() if shape.numel() else 0
    storage = target.untyped_storage()
    if needed > storage.nbytes():
        resize_storage(storage, int(needed))
    keywords = {} if memory_format is None else {"memory_format": memory_format}
    _resize(CPU_KEYS, target, size, **keywords)
    return target


def resize_kernel(target: Tensor, size: Any, *, memory_format: torch.memory_format | None = None) -> Tensor:
    """Kernel of `aten::resize_`."""
    return resize(target, list(size), memory_format)


def new_storage(size_bytes: int, index: int = 0) -> torch.UntypedStorage:
    """Return a storage of that many uninitialised bytes on the logical device `index`."""
    memory.require(size_bytes, index)
    npu = take(torch.empty(size_bytes, dtype=torch.uint8, device="cpu"))
    track(npu, index)
    return npu.untyped_storage()


def resize_storage(storage: torch.UntypedStorage, size_bytes: int) -> None:
    """Give an npu storage other memory of this size, which begins with the old contents.

    Raises torch.OutOfMemoryError when the device has no room for both, as on the device.
    """
    memory.replace(storage, size_bytes)
    fresh = take(torch.empty(size_bytes, dtype=torch.uint8, device="cpu")).untyped_storage()
    num_kept = min(size_bytes, storage.nbytes())
    if num_kept:
        ctypes.memmove(fresh.data_ptr(), storage.data_ptr(), num_kept)
    storage_swap.exchange(storage, fresh)


def install() -> None:
    """Let `torch.UntypedStorage` be made and resized on the npu, for which C++ would ask an allocator."""
    plain: Any = torch.UntypedStorage
    make, resize_plain = plain.__new__, plain.resize_

    def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != "npu":
            return make(cls, *args, device=device, **kwargs) if device is not None else make(cls, *args, **kwargs)
        size = args[0] if args else kwargs.get("size", 0)
        if isinstance(size, int):
            return new_storage(size, index_from(device))
        storage = new_storage(len(size), index_from(device))
        storage.copy_(plain(size))
        return storage

    def resize_(self: torch.UntypedStorage, size: int) -> Any:
        if self.device.type != "npu":
            return resize_plain(self, size)
        if size != self.nbytes():
            resize_storage(self, size)
        return self

    plain.__new__ = staticmethod(new)
    plain.resize_ = resize_
    learn_layout()
    memory.refresh()
    STATE.on_settings.append(memory.refresh)
    pinned_allocator.install()
