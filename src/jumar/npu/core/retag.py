"""Move the device label of a tensor between `cpu` and `npu` without moving its memory.

A DLPack capsule carries a tensor's memory, geometry and device. Exporting a CPU tensor, writing
another device type into the capsule and importing it again gives a real C++ tensor with the
PrivateUse1 dispatch key whose storage owns the CPU memory (DLPack specification, `DLManagedTensor`:
the struct begins with `void* data; int32 device_type; int32 device_id`). The way back gives a CPU
tensor that shares the memory and keeps the npu tensor alive. One call takes about two microseconds.

A CPU tensor that nobody else holds, which is what an operator returns, needs no second tensor around
it: `turn` gives it the dispatch keys and the device of an npu tensor where it stands, which takes a third
of the time. What to write and where is read off a tensor that came through DLPack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from jumar.base.errors import DeviceError
from jumar.npu.core.versions.native_part import extension
from jumar.npu.core.versions.registration import takes_python_backends

CPU = 1
"""kDLCPU."""
NPU = 12
"""kDLExtDev, which PyTorch reads as PrivateUse1."""

_HOST = (NPU, CPU)
_DEVICE_WORD = 1
"""The device is the second 8-byte word of DLManagedTensor, after the data pointer."""
_COUNT = 2**32 - 1
"""Strong references in the word after an object's table of virtual functions."""
_CPU_DEVICE, _NPU_DEVICE = 0xFF00, 0x0014
"""Type 0 without an index; type 20 (PrivateUse1) with index 0."""
_RESIZABLE = 0x100
"""The flags of a storage from an allocator; memory that came through DLPack has none set."""
_NUM_PROBED_BYTES = 184
"""A TensorImpl of torch 2.10 and 2.11, whose last word are the dispatch keys; those of others are smaller."""
_CAPSULE_POINTER_WORD = 2
"""CPython's PyCapsule holds the pointer after the two words of the object header."""

_export = torch._C._to_dlpack
_import = torch._C._from_dlpack

# NOTE: one view of the address space as 64-bit words. Indexing it takes 0.05 us, where a ctypes call
# to PyCapsule_GetPointer and two `from_address` objects take 0.5 us; this is the hottest line here.
words = (ctypes.c_int64 * 2**44).from_address(0)


halves = (ctypes.c_uint16 * 2**46).from_address(0)
"""The same by 16 bits: a device is a byte for its type and one for its index."""


# Where PyTorch keeps what `turn` changes: positions in a TensorImpl and a StorageImpl, by words or halves of a
# word. They are module variables because those are the fastest to read; `learn_layout` fills them in.
_cpu_keys = -1
"""Dispatch keys of a plain dense CPU tensor; any other tensor goes through DLPack. -1: not known."""
_npu_keys = _keys_at = _device_at = _storage_at = _storage_device_at = _flags_at = 0


def to_npu(tensor: torch.Tensor) -> torch.Tensor:
    """Return an npu tensor that owns the memory of this CPU tensor (same shape, strides and dtype)."""
    capsule = _export(tensor)
    words[(words[(id(capsule) >> 3) + _CAPSULE_POINTER_WORD] >> 3) + _DEVICE_WORD] = NPU
    return _import(capsule)


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor over the memory of this npu tensor; it keeps the npu tensor's memory alive.

    Raises RuntimeError for a tensor of a real GPU, whose memory the host cannot read.
    """
    capsule = _export(tensor)
    at = (words[(id(capsule) >> 3) + _CAPSULE_POINTER_WORD] >> 3) + _DEVICE_WORD
    if words[at] not in _HOST:
        refuse_gpu(tensor)
    words[at] = CPU
    return _import(capsule)


_is_cuda: Callable[[torch.Tensor], bool] = torch._C.TensorBase.is_cuda.__get__  # type: ignore[attr-defined]  # a property in C


def is_gpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor lies on a real GPU, also where `Tensor.is_cuda` speaks of the emulated device."""
    with torch._C.DisableTorchFunction():  # under a mode the getter looks `is_cuda` up on `torch.Tensor` again
        return _is_cuda(tensor)


def refuse_gpu(tensor: torch.Tensor) -> NoReturn:
    """Raise PyTorch's RuntimeError for an operator that got tensors of the emulated NPU and of a real GPU."""
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, npu:0 and {tensor.device}! "
        "Between the emulated NPU and a GPU tensors go through the host: tensor.cpu().to(device)."
    )


if not takes_python_backends():
    to_npu, to_cpu = extension().to_npu, extension().to_cpu


def take(tensor: torch.Tensor) -> torch.Tensor:
    """Return an npu tensor that owns the memory of this CPU tensor, which the caller gives up: it may be the same."""
    return tensor if turn(tensor) else to_npu(tensor)


def storage_address(tensor: torch.Tensor) -> int:
    """Return the address of the StorageImpl of a dense tensor: one for all tensors that share memory."""
    return words[(tensor._cdata >> 3) + _storage_at] if _storage_at else tensor.untyped_storage()._cdata


def turn(tensor: torch.Tensor) -> bool:
    """Turn a CPU tensor into an npu tensor where it stands; return whether that was possible.

    It is with a plain dense tensor that nobody else refers to, and whose memory no other tensor shows.
    """
    address = tensor._cdata
    word = address >> 3
    if words[word + _keys_at] != _cpu_keys or words[word + 1] & _COUNT != 1:
        return False
    storage = words[word + _storage_at]
    if words[(storage >> 3) + 1] & _COUNT != 1:
        return False
    words[word + _keys_at] = _npu_keys
    halves[(address >> 1) + _device_at] = _NPU_DEVICE
    halves[(storage >> 1) + _storage_device_at] = _NPU_DEVICE
    halves[(storage >> 1) + _flags_at] = 0
    return True


def learn_layout() -> None:
    """Find out what `turn` has to write. Where this PyTorch is laid out otherwise, it turns nothing."""
    global _cpu_keys, _npu_keys, _keys_at, _device_at, _storage_at, _storage_device_at, _flags_at  # noqa: PLW0603 (see there)
    shape = (3, 5)
    pair = torch.empty(shape, device="cpu"), to_npu(torch.empty(shape, device="cpu"))
    stores = [tensor.untyped_storage()._cdata for tensor in pair]
    tensors = [tensor._cdata for tensor in pair]
    keys = [torch._C._dispatch_keys(tensor).raw_repr() for tensor in pair]
    devices = _CPU_DEVICE, _NPU_DEVICE
    found = (
        _only(words, tensors, 3, keys),
        _only(halves, tensors, 1, devices),
        _only(words, tensors, 3, stores),
        _only(halves, stores, 1, devices),
        _only(halves, stores, 1, (_RESIZABLE, 0)),
    )
    if None in found:
        return
    _keys_at, _device_at, _storage_at, _storage_device_at, _flags_at = (position or 0 for position in found)
    _cpu_keys, _npu_keys = keys
    probe = torch.empty(2, 7, device="cpu")
    pointer = probe.data_ptr()
    taken = take(probe)
    state = (taken.device.type, taken.untyped_storage().device.type, taken.data_ptr(), tuple(taken.shape))
    if taken is not probe or state != ("npu", "npu", pointer, (2, 7)):
        _cpu_keys = -1


def _only(view: Any, addresses: list[int], shift: int, values: Any) -> int | None:
    """Return the one position at which objects hold these values, or None when there is none or several."""
    num = _NUM_PROBED_BYTES >> shift
    first, second = [address >> shift for address in addresses]
    hits = [i for i in range(num) if (view[first + i], view[second + i]) == tuple(values)]
    return hits[0] if len(hits) == 1 else None


def check_layout() -> None:
    """Raise DeviceError when a capsule is not laid out as above in this Python or PyTorch."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    probe = torch.empty(3)
    capsule: Any = _export(probe)
    pointer = pointer_of(capsule, b"dltensor")
    read = ctypes.c_int64.from_address
    if read(id(capsule) + 8 * _CAPSULE_POINTER_WORD).value != pointer or (
        read(pointer).value != probe.data_ptr() or read(pointer + 8 * _DEVICE_WORD).value != CPU
    ):
        raise DeviceError(
            "the emulated NPU needs a CPython and PyTorch whose DLPack capsules have the usual layout, and these "
            f"do not (torch {torch.__version__}). Try CPython 3.11 with torch 2.13."
        )
