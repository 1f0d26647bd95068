"""Let npu tensors change the memory they point to: `resize_`, `set_`, untyped storages."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from jumar.npu.core.devices import index_from
from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.retag import learn_layout, take, to_cpu, to_npu
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.memory import memory, pinned_allocator, storage_swap
from jumar.npu.memory.memory import track

Tensor = torch.Tensor

_set = get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed
_resize = get_kernel("aten::resize_", "CPU").call_boxed


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


def adopt(target: Tensor, result: Tensor) -> None:
    """Give the npu tensor `target` the shape, strides and values of the CPU tensor `result`, its output.

    As any resized output, `target` keeps its storage and its offset. The storage grows where it is too small, for all
    tensors that share it; it takes the memory of `result` where nothing else has to be kept. Nobody else may hold
    `result`.
    """
    storage, needed = target.untyped_storage(), _bytes_for(target, result)
    if needed > storage.nbytes() and not target.storage_offset() and needed == result.untyped_storage().nbytes():
        memory.replace(storage, needed)
        shape, stride = result.shape, result.stride()
        storage_swap.exchange(storage, to_npu(result).untyped_storage())
        reshape(target, shape, stride)
        return
    if needed > storage.nbytes():
        resize_storage(storage, needed)
    reshape(target, result.shape, result.stride())
    if result.numel():
        to_cpu(target).copy_(result)


def _bytes_for(target: Tensor, like: Tensor) -> int:
    """Return the size of the storage in which `target` has the shape and strides of `like`."""
    last = sum((num - 1) * step for num, step in zip(like.shape, like.stride(), strict=True))
    return int(target.storage_offset() + last + 1) * target.element_size() if like.numel() else 0


def resize(target: Tensor, size: list[int], memory_format: torch.memory_format | None = None) -> Tensor:
    """`resize_`: the storage grows where its memory does not suffice, for all tensors that share it."""
    shape = torch.empty(size, dtype=target.dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    needed = (shape.numel() + target.storage_offset()) * target.element_size() if shape.numel() else 0
    if shape.shape == target.shape:
        needed = 0  # the tensor keeps its strides
    storage = target.untyped_storage()
    num_kept = storage.nbytes() // target.element_size()
    if needed > storage.nbytes():
        resize_storage(storage, int(needed))
    keywords = {} if memory_format is None else {"memory_format": memory_format}
    _resize(CPU_KEYS, target, size, **keywords)
    if needed > num_kept * target.element_size():
        _fill_from(target, num_kept)
    return target


def _fill_from(target: Tensor, place: int) -> None:
    """Give what `target`, which is dense, shows of its storage from `place` on the values of uninitialised elements.

    PyTorch fills them, where algorithms are deterministic, with NaN or the greatest integer.
    """
    if torch.are_deterministic_algorithms_enabled() and torch._C._get_deterministic_fill_uninitialized_memory():
        flat = to_cpu(target).as_strided((target.numel(),), (1,))
        grown = flat[max(place - target.storage_offset(), 0) :]
        grown.copy_(torch.empty(grown.shape, dtype=target.dtype, device="cpu"))


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

    def new_empty(self: torch.UntypedStorage) -> Any:
        return new_storage(0, memory.INDEX_OF_STORAGE.get(self._cdata, 0)) if self.device.type == "npu" else plain()

    plain.new = new_empty
    plain.__new__ = staticmethod(new)
    plain.resize_ = resize_
    learn_layout()
    memory.refresh()
    STATE.on_settings.append(memory.refresh)
    pinned_allocator.install()
