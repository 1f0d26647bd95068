"""Let npu tensors change the memory they point to: `resize_`, `set_`, untyped storages."""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.devices import index_from
from jumar.device.emulator.memory import index_of, track
from jumar.device.emulator.plans import CPU_KEYS
from jumar.device.emulator.retag import to_cpu, to_npu

Tensor = torch.Tensor

_set = torch.library.get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed
_as_strided = torch.library.get_kernel("aten::as_strided", "CPU").call_boxed
_resize = torch.library.get_kernel("aten::resize_", "CPU").call_boxed


def repoint(target: Tensor, memory: Tensor, index: int = 0) -> None:
    """Make the npu tensor `target` show the CPU tensor `memory`: its memory, shape and strides.

    `memory` must not be an alias of `target` itself: see `reshape`.
    """
    npu = to_npu(memory)
    storage = npu.untyped_storage()
    track(memory, index, storage._cdata if index else 0)
    _set(CPU_KEYS, target, storage, 0, list(memory.shape), list(memory.stride()))


def reshape(target: Tensor, size: Any, stride: Any) -> None:
    """Give the npu tensor `target` another geometry over the memory it has."""
    _set(CPU_KEYS, target, target.untyped_storage(), target.storage_offset(), list(size), list(stride))


def resize(target: Tensor, size: list[int], memory_format: torch.memory_format | None = None) -> Tensor:
    """`resize_`: in place where the memory suffices, else in new memory that starts with the old contents.

    Other tensors that share the storage keep the old memory, which PyTorch's own allocators would
    have moved for them too; tensors with a storage of their own behave as on any device.
    """
    shape = torch.empty(size, dtype=target.dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    needed = (shape.numel() + target.storage_offset()) * target.element_size() if shape.numel() else 0
    keywords = {} if memory_format is None else {"memory_format": memory_format}
    if needed <= target.untyped_storage().nbytes():
        _resize(CPU_KEYS, target, size, **keywords)
        return target
    whole = _as_strided(CPU_KEYS, target, (target.untyped_storage().nbytes() // target.element_size(),), (1,), 0)
    offset = target.storage_offset()
    grown = torch.empty(max(shape.numel() + offset, whole.numel()), dtype=target.dtype, device="cpu")
    grown[: whole.numel()] = to_cpu(whole)
    fresh = grown[offset:].as_strided(size, shape.stride())
    repoint(target, fresh, index_of(target))
    return target


def resize_kernel(target: Tensor, size: Any, *, memory_format: torch.memory_format | None = None) -> Tensor:
    """Kernel of `aten::resize_`."""
    return resize(target, list(size), memory_format)


def new_storage(size_bytes: int, index: int = 0) -> torch.UntypedStorage:
    """Return a storage of that many uninitialised bytes on the logical device `index`."""
    memory = torch.empty(size_bytes, dtype=torch.uint8, device="cpu")
    npu = to_npu(memory)
    storage = npu.untyped_storage()
    track(memory, index, storage._cdata if index else 0)
    return storage


def install() -> None:
    """Let `torch.UntypedStorage` be made and resized on the npu, for which C++ would ask an allocator."""
    plain: Any = torch.UntypedStorage
    make, resize_storage = plain.__new__, plain.resize_

    def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != "npu":
            return make(cls, *args, device=device, **kwargs) if device is not None else make(cls, *args, **kwargs)
        size = args[0] if args else kwargs.get("size", 0)
        if isinstance(size, int):
            return new_storage(size, index_from(device))
        storage = new_storage(len(size), index_from(device))
        storage.copy_(plain(size))
        return storage

    def resize(self: torch.UntypedStorage, size: int) -> Any:
        if self.device.type != "npu" or size == self.nbytes():
            return resize_storage(self, size)
        raise NotImplementedError(
            "the emulated NPU cannot resize a storage in place, because its memory belongs to a CPU tensor; "
            "use resize_ on the tensor, or a new storage."
        )

    plain.__new__ = staticmethod(new)
    plain.resize_ = resize
