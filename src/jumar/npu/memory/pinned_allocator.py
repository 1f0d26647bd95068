"""An allocator of pinned memory for C++, which a back end written in Python cannot hand over.

`torch.empty(..., pin_memory=True)` asks the accelerator's hooks for one, and the hooks that Python can
subclass have none and raise. Here the hooks object gets a copy of its table of virtual functions in
which that one function is replaced. What it returns is PyTorch's CPU allocator as an object of its own:
it allocates the same memory, and storages that came from it can be told by its address.

The position in the table is that of the declaration in PyTorch's header (`AcceleratorHooksInterface.h`),
and is tried before it is kept; where anything is not as expected, nothing is changed.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import torch

from jumar.npu.core.retag import words

_HEADER = "include/ATen/detail/AcceleratorHooksInterface.h"
_FUNCTION = "getPinnedMemoryAllocator"
_NUM_SLOTS = 32
"""More than the table has: the rest is copied along and never called."""
_BEFORE = 2
"""Words before the first function: the offset to the top of the object and its type."""
_NUM_STORAGE_WORDS = 12
_kept: list[Any] = []
"""What C++ now points to."""


class _Allocator:
    address = 0
    word = 0
    """Position of the allocator in a StorageImpl, in 8-byte words."""


def is_installed() -> bool:
    """Return whether C++ has the allocator."""
    return bool(_Allocator.address)


def is_from_pinned(storage: torch.UntypedStorage) -> bool:
    """Return whether C++ took this CPU storage from the pinned allocator."""
    return bool(_Allocator.address) and words[(storage._cdata >> 3) + _Allocator.word] == _Allocator.address


def install() -> bool:
    """Give the hooks the allocator. Return False when this PyTorch is not laid out as expected."""
    slot = _slot()
    library = Path(torch.__file__).parent / "lib"
    if slot is None or _kept:
        return bool(_kept)
    try:
        hooks_of = ctypes.CDLL(str(library / "libtorch_cpu.so"))["_ZN2at6detail19getPrivateUse1HooksEv"]
        cpu_allocator_of = ctypes.CDLL(str(library / "libc10.so"))["_ZN3c1015GetCPUAllocatorEv"]
    except (OSError, AttributeError):  # other names on other systems
        return False
    hooks_of.restype = cpu_allocator_of.restype = ctypes.c_void_p
    hooks, original = hooks_of(), cpu_allocator_of()
    allocator = (ctypes.c_int64 * 8)(*words[original >> 3 : (original >> 3) + 1])
    address = ctypes.addressof(allocator)
    answer = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _hooks: address)
    table_at = words[hooks >> 3]
    first = (table_at >> 3) - _BEFORE
    table = (ctypes.c_int64 * (_NUM_SLOTS + _BEFORE))(*words[first : first + _NUM_SLOTS + _BEFORE])
    table[_BEFORE + slot] = ctypes.cast(answer, ctypes.c_void_p).value or 0
    words[hooks >> 3] = ctypes.addressof(table) + 8 * _BEFORE
    found = _word_of(address)
    if found is None:
        words[hooks >> 3] = table_at
        return False
    _kept.extend((allocator, answer, table))
    _Allocator.address, _Allocator.word = address, found
    return True


def _slot() -> int | None:
    """Return the position of the function in the table: the destructor takes two, then they are as declared."""
    file = Path(torch.__file__).parent / _HEADER
    if not file.exists():
        return None
    names = re.findall(r"virtual [^(;{]*?(~?\w+)\(", file.read_text(encoding="utf-8"))
    return names.index(_FUNCTION) + 1 if _FUNCTION in names and names[0].startswith("~") else None


def _word_of(address: int) -> int | None:
    """Return where a storage keeps its allocator, found with one pinned and one plain tensor."""
    try:
        pinned = torch.empty(1, device="cpu", pin_memory=True).untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None
    plain = torch.empty(1, device="cpu").untyped_storage()
    for word in range(_NUM_STORAGE_WORDS):
        if words[(pinned._cdata >> 3) + word] == address != words[(plain._cdata >> 3) + word]:
            return word
    return None
