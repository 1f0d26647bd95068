"""Move the device label of a tensor between `cpu` and `npu` without moving its memory.

A DLPack capsule carries a tensor's memory, geometry and device. Exporting a CPU tensor, writing
another device type into the capsule and importing it again gives a real C++ tensor with the
PrivateUse1 dispatch key whose storage owns the CPU memory (DLPack specification, `DLManagedTensor`:
the struct begins with `void* data; int32 device_type; int32 device_id`). The way back gives a CPU
tensor that shares the memory and keeps the npu tensor alive. One call takes about two microseconds.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from jumar.errors import DeviceError

CPU = 1
"""kDLCPU."""
NPU = 12
"""kDLExtDev, which PyTorch reads as PrivateUse1."""

_DEVICE_WORD = 1
"""The device is the second 8-byte word of DLManagedTensor, after the data pointer."""
_CAPSULE_POINTER_WORD = 2
"""CPython's PyCapsule holds the pointer after the two words of the object header."""

_export = torch._C._to_dlpack
_import = torch._C._from_dlpack

# NOTE: one view of the address space as 64-bit words. Indexing it takes 0.05 us, where a ctypes call
# to PyCapsule_GetPointer and two `from_address` objects take 0.5 us; this is the hottest line here.
words = (ctypes.c_int64 * 2**44).from_address(0)


def to_npu(tensor: torch.Tensor) -> torch.Tensor:
    """Return an npu tensor that owns the memory of this CPU tensor (same shape, strides and dtype)."""
    capsule = _export(tensor)
    words[(words[(id(capsule) >> 3) + _CAPSULE_POINTER_WORD] >> 3) + _DEVICE_WORD] = NPU
    return _import(capsule)


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor over the memory of this npu tensor; it keeps the npu tensor's memory alive."""
    capsule = _export(tensor)
    words[(words[(id(capsule) >> 3) + _CAPSULE_POINTER_WORD] >> 3) + _DEVICE_WORD] = CPU
    return _import(capsule)


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
