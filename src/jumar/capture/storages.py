"""Which tensors of a step share memory, and whether a tensor is still as it was last seen.

A storage is known by the address of its StorageImpl. The table holds a weak reference to each, so
an address is not given out again within a step although the memory itself is freed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.capture.calls import Seen
from jumar.capture.memory import is_gapless

_no_storage = (NotImplementedError, RuntimeError)


class StorageTable:
    """Numbers storages from 1 in the order in which they are first seen, and remembers tensors."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._weak_references: list[Any] = []
        self._writes: dict[int, int] = {}
        self._seen: dict[Any, Seen] = {}

    def clear(self) -> None:
        """Forget everything: the step is over."""
        free: Callable[[Any], None] = torch.UntypedStorage._free_weak_ref
        for reference in self._weak_references:
            free(reference)
        self._weak_references.clear()
        self._numbers.clear()
        self._writes.clear()
        self._seen.clear()

    def forget_values(self) -> None:
        """Forget what tensors looked like, and keep the numbers of their storages."""
        self._seen.clear()

    def find(self, tensor: torch.Tensor) -> tuple[Seen, bool]:
        """Return the note of `tensor` and whether it is new (its values have not been looked at)."""
        try:
            storage = tensor.untyped_storage()
            version = tensor._version
        except _no_storage:  # sparse tensors and other layouts; inference tensors have no version
            return Seen(tensor, self._number(tensor)), True
        address = storage._cdata
        number = self._numbers.get(address)
        if number is None:
            number = self._numbers[address] = len(self._numbers) + 1
            self._weak_references.append(storage._weak_ref())
        key = (
            number,
            self._writes.get(number, 0),
            version,
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            tensor.is_conj(),  # lazily conjugated or negated views of the same memory have other values
            tensor.is_neg(),
        )
        seen = self._seen.get(key)
        if seen is not None:
            return seen, False
        seen = self._seen[key] = Seen(tensor, number)
        if seen.contiguous or is_gapless(seen.shape, seen.stride):
            seen.memory = (*key[:4], tensor.numel(), *key[6:])
        return seen, True

    def note_write(self, tensor: torch.Tensor) -> None:
        """Remember that the tensor's memory was written: what was seen of it no longer holds."""
        number = self._number(tensor)
        self._writes[number] = self._writes.get(number, 0) + 1

    def _number(self, tensor: torch.Tensor) -> int:
        try:
            storage = tensor.untyped_storage()
        except _no_storage:
            return 0
        address = storage._cdata
        number = self._numbers.get(address)
        if number is None:
            number = self._numbers[address] = len(self._numbers) + 1
            self._weak_references.append(storage._weak_ref())
        return number
