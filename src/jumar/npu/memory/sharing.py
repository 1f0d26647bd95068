"""Share npu memory: with processes through `torch.multiprocessing`, with libraries through DLPack.

When a tensor is sent to another process its storage moves into memory that processes share, keeping its
identity (`storage_swap`); the receiver gets an npu tensor over the same memory. As with the vendor's handles,
both see what either writes, and only the sender's device counts the memory.
"""

from __future__ import annotations

import ctypes
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.utils.dlpack import DLDeviceType

from jumar.npu.core.retag import to_npu
from jumar.npu.memory import memory, storage_swap
from jumar.npu.memory.storage import new_storage

_TWIN = "_jumar_shared"
"""Attribute of an npu storage: the CPU storage of the shared memory it shows."""


def share(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Move an npu storage into shared memory and return the CPU storage of that memory. The second time: the same.

    Raises NotImplementedError as `storage_swap.exchange`.
    """
    twin: torch.UntypedStorage | None = getattr(storage, _TWIN, None)
    if twin is None or twin.data_ptr() != storage.data_ptr():
        made: Any = torch.UntypedStorage
        twin = made._new_shared(storage.nbytes())
        assert twin is not None, "_new_shared returns a storage"
        ctypes.memmove(twin.data_ptr(), storage.data_ptr(), storage.nbytes())
        storage_swap.exchange(storage, _over(twin))
        setattr(storage, _TWIN, twin)
    return twin


def rebuild(index: int, twin: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return an npu storage over shared memory, in the process that received it."""
    storage = _over(twin)
    setattr(storage, _TWIN, twin)
    belongs(storage, index)
    return storage


def belongs(storage: torch.UntypedStorage, index: int) -> None:
    """Let a storage whose memory is not counted belong to a logical device."""
    if index:
        memory.INDEX_OF_STORAGE[storage._cdata] = index
        weakref.finalize(storage, memory.INDEX_OF_STORAGE.pop, storage._cdata, None)


def _over(twin: torch.UntypedStorage) -> torch.UntypedStorage:
    """Return an npu storage over the memory of a CPU storage, which it keeps alive."""
    shown = torch.empty(0, dtype=torch.uint8, device="cpu")
    shown.set_(twin)
    return to_npu(shown).untyped_storage()


def _reduce(storage: torch.UntypedStorage) -> Any:
    """Return how another process makes the storage."""
    if storage.device.type != "npu":
        plain: Any = reductions.reduce_storage
        return plain(storage)
    index = memory.INDEX_OF_STORAGE.get(storage._cdata, 0)
    if not storage.nbytes():
        return new_storage, (0, index)
    return rebuild, (index, share(storage))


_plain_dlpack_device = torch.Tensor.__dlpack_device__


def _dlpack_device(self: torch.Tensor) -> Any:
    """`Tensor.__dlpack_device__`: an extension device for the npu, as PyTorch says of a back end without a name."""
    if type(self) is torch.Tensor and self.device.type == "npu":
        return DLDeviceType.kDLExtDev, memory.index_of(self)
    return _plain_dlpack_device(self)


def _knowing_devices(plain: Any) -> Any:
    """Return `from_dlpack` that leaves a tensor on the logical device it came from."""

    def from_dlpack(ext_tensor: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        found: torch.Tensor = plain(ext_tensor, *args, **kwargs)
        if isinstance(ext_tensor, torch.Tensor) and ext_tensor.device.type == found.device.type == "npu":
            belongs(found.untyped_storage(), memory.index_of(ext_tensor))
        return found

    from_dlpack.__doc__ = plain.__doc__
    return from_dlpack


def install() -> None:
    """Let npu storages go to other processes, and npu tensors through `torch.from_dlpack`."""
    ForkingPickler.register(torch.UntypedStorage, _reduce)
    tensor_class: Any = torch.Tensor
    tensor_class.__dlpack_device__ = _dlpack_device
    root: Any = torch
    root.from_dlpack = root.utils.dlpack.from_dlpack = _knowing_devices(root.utils.dlpack.from_dlpack)
