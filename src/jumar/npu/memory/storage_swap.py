"""Exchange the memory of two storages, so that a storage keeps its identity while its memory is replaced.

PyTorch resizes a storage by asking the allocator it came from; memory that was imported through DLPack has
none. But a StorageImpl holds its memory as four words (the data, its deleter, what the deleter is
given, the device) and its size as a fifth, and these can change places with those of another storage: each
memory stays owned once and is freed by its own deleter. The positions are those of torch 2.13's
`StorageImpl.h` and are tried on two storages before the first use.
"""

from __future__ import annotations

import functools

import torch

from jumar.npu.core.retag import to_npu, words

_DATA = 2
"""After the table of virtual functions and the reference counts."""
_SIZE = 6
_NUM = 5


def exchange(first: torch.UntypedStorage, second: torch.UntypedStorage) -> None:
    """Exchange memory and size of two npu storages. Raises NotImplementedError for another PyTorch's layout."""
    if not _works():
        raise NotImplementedError(
            "the emulated NPU cannot resize a storage in place with this PyTorch, whose storages are laid out "
            f"otherwise than those of torch 2.13 (this is {torch.__version__}); use resize_ on the tensor, or a new "
            "storage."
        )
    _swap(first, second)


def _swap(first: torch.UntypedStorage, second: torch.UntypedStorage) -> None:
    one, two = (first._cdata >> 3) + _DATA, (second._cdata >> 3) + _DATA
    for offset in range(_NUM):
        words[one + offset], words[two + offset] = words[two + offset], words[one + offset]


@functools.cache
def _works() -> bool:
    """Try the layout with two storages of known address and size."""
    pair = [to_npu(torch.empty(size, dtype=torch.uint8, device="cpu")).untyped_storage() for size in (24, 40)]
    before = [(storage.data_ptr(), storage.nbytes()) for storage in pair]
    there = [(words[(item._cdata >> 3) + _DATA], words[(item._cdata >> 3) + _SIZE]) for item in pair]
    if there != before:
        return False
    _swap(*pair)
    return [(storage.data_ptr(), storage.nbytes()) for storage in pair] == before[::-1]
