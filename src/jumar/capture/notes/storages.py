"""Which tensors of a step share memory, and whether a tensor is still as it was last seen.

A storage is known by the address of its StorageImpl. The table holds a weak reference to each, so
an address is not given out again within a step although the memory itself is freed at once. Nothing is
left on the run's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from jumar.capture.notes.calls import Layout, Seen
from jumar.capture.notes.memory import local_part

_no_storage = (NotImplementedError, RuntimeError)
_VERSION_BITS = 40
_OUTDATED = -1
"""A version that no tensor has."""
_MOST_LAYOUTS = 50_000
"""Layouts that are kept from step to step, about 20 MB; a program with ever new shapes starts again."""

_Layouts = dict[Any, Layout]


class Memory:
    """The notes of one storage since it was last written."""

    __slots__ = ("era", "is_complex", "layouts", "num_writes", "number", "outlines", "seen")

    def __init__(self, number: int, layouts: _Layouts, era: int) -> None:
        self.number = number
        self.num_writes = 0
        self.era = era
        """When what was seen was seen, see `StorageTable.forget_values`."""
        self.is_complex = False
        """Whether complex tensors lie here: only views of these are conjugated or negated by a bit."""
        self.layouts = layouts
        """The layouts of its device."""
        self.outlines: dict[Any, Seen] | None = None
        """Notes without values, by layout."""
        self.seen: dict[int, Seen] = {}
        """Notes by `Layout.key` and version; and the first note of the same elements, by `Layout.elements` and version.

        NOTE: numbers, because a pair a tensor would keep the garbage collector busy.
        """


class _Carried:
    """The state of a tensor at the end of the step."""

    __slots__ = ("seen", "version", "weak_reference")

    def __init__(self, seen: Seen, version: int, weak_reference: Any) -> None:
        self.seen = seen
        self.version = version
        self.weak_reference = weak_reference


class StorageTable:
    """Numbers storages from 1 in the order in which they are first seen, and remembers tensors."""

    def __init__(self) -> None:
        self._memories: dict[int, Memory] = {}
        self._weak_references: list[Any] = []
        self._era = 0
        self._num_layouts = 0
        self._elements: dict[Any, int] = {}
        self._layouts: dict[torch.device, _Layouts] = {}
        self._carried: dict[int, _Carried] = {}
        self._to_carry: dict[int, _Carried] = {}

    def carry(self, tensor: torch.Tensor, seen: Seen) -> None:
        """Let the next step begin with the values that were found in this tensor (a parameter) at the end of this one.

        For recordings that see every write from now on.
        """
        try:
            storage, version = tensor.untyped_storage(), tensor._version
        except _no_storage:
            return
        address = storage._cdata
        if address not in self._to_carry:
            self._to_carry[address] = _Carried(seen, version, storage._weak_ref())

    def clear(self, *, carries: bool = False) -> None:
        """Forget everything but layouts, and with `carries` what `carry` was told: the step is over."""
        self._free(self._weak_references)
        self._free([carried.weak_reference for carried in self._carried.values()])
        self._weak_references.clear()
        self._memories.clear()
        if not carries:
            self._free([carried.weak_reference for carried in self._to_carry.values()])
        self._carried = self._to_carry if carries else {}
        self._to_carry = {}
        if sum(map(len, self._layouts.values())) > _MOST_LAYOUTS:
            self._layouts.clear()
            self._elements.clear()

    def forget_values(self) -> None:
        """Forget what tensors looked like, and keep the numbers of their storages."""
        self._era += 1

    def find(self, tensor: torch.Tensor, version: int | None = None) -> tuple[Seen, bool]:
        """Return the note of `tensor` and whether it is new (its values have not been looked at).

        `version` is that of the tensor it is a view of, when it has just been made: below autograd a new view
        counts from 0, and takes over its base's count only later.
        """
        part = local_part(tensor)
        if part is not tensor:  # operators on it write its part where nobody follows
            return self.locate(part), True
        try:
            storage = tensor.untyped_storage()
            if version is None:
                version = tensor._version
            dtype = tensor.dtype
            place: Any = (tensor.shape, tensor.stride(), tensor.storage_offset(), dtype)
        except _no_storage:  # sparse and nested tensors and other layouts; inference tensors have no version
            return self.locate(tensor), True
        memory = self._memories.get(storage._cdata) or self._remember(storage)
        if memory.era != self._era:
            memory.era = self._era
            memory.seen.clear()
        if memory.is_complex or dtype.is_complex:
            memory.is_complex = True
            place = (*place, tensor.is_conj(), tensor.is_neg())
        layout = memory.layouts.get(place) or self._add_layout(memory.layouts, place, tensor)
        key = layout.key + version
        seen = memory.seen.get(key)
        if seen is not None:
            return seen, False
        seen = memory.seen[key] = Seen(layout, memory.number, memory.num_writes, version)
        first = memory.seen.setdefault(layout.elements - version, seen)
        if first is not seen:
            seen.twin = first
        elif self._carried:
            self._recall(seen, storage._cdata, version)
        return seen, True

    def _add_layout(self, layouts: _Layouts, place: Any, tensor: torch.Tensor) -> Layout:
        layout = layouts[place] = Layout(tensor)
        number = self._elements.setdefault(layout.addresses, len(self._elements) + 1)
        self._num_layouts += 1
        layout.key, layout.elements = self._num_layouts << _VERSION_BITS, -number << _VERSION_BITS
        return layout

    def note_result(self, tensor: torch.Tensor) -> None:
        """Remember that the notes of `tensor` describe it as the operator left it that has just written it.

        Autograd counts the write once the operator has returned.
        """
        try:
            memory = self._memories.get(tensor.untyped_storage()._cdata)
        except _no_storage:
            return
        if memory is not None:
            memory.seen |= {key + (1 if key > 0 else -1): seen for key, seen in memory.seen.items()}

    def locate(self, tensor: torch.Tensor) -> Seen:
        """Return a note of `tensor`, of a DTensor of this rank's part, without values. The next lookup reads them."""
        tensor = local_part(tensor)
        try:
            storage = tensor.untyped_storage()
        except _no_storage:
            return Seen(Layout(tensor), 0)
        memory = self._memories.get(storage._cdata) or self._remember(storage)
        return Seen(Layout(tensor), memory.number)

    def outline(self, tensor: torch.Tensor) -> Seen:
        """Return a note of the layout and memory of `tensor`, whatever its values; the same in every state of them."""
        tensor = local_part(tensor)
        try:
            storage = tensor.untyped_storage()
        except _no_storage:
            return Seen(Layout(tensor), 0)
        memory = self._memories.get(storage._cdata) or self._remember(storage)
        place = (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype)
        if memory.outlines is None:
            memory.outlines = {}
        seen = memory.outlines.get(place)
        if seen is None:
            seen = memory.outlines[place] = Seen(Layout(tensor), memory.number)
        return seen

    def note_write(self, tensor: torch.Tensor) -> None:
        """Remember that the tensor's memory was written: what was seen of it no longer holds."""
        tensor = local_part(tensor)
        try:
            address = tensor.untyped_storage()._cdata
        except _no_storage:
            return
        carried = self._carried.get(address)
        if carried is not None:
            carried.version = _OUTDATED
        memory = self._memories.get(address)
        if memory is not None:
            memory.num_writes += 1
            memory.seen.clear()

    def _recall(self, seen: Seen, address: int, version: int) -> None:
        """Fill in what is known of a tensor from the step before."""
        carried = self._carried.get(address)
        if carried is not None and carried.version == version and carried.seen.layout is seen.layout:
            seen.statistics, seen.sketch = carried.seen.statistics, carried.seen.sketch

    @staticmethod
    def _free(references: Iterable[Any]) -> None:
        free: Callable[[Any], None] = torch.UntypedStorage._free_weak_ref
        for reference in references:
            free(reference)

    def _remember(self, storage: torch.UntypedStorage) -> Memory:
        layouts = self._layouts.setdefault(storage.device, {})
        memory = self._memories[storage._cdata] = Memory(len(self._memories) + 1, layouts, self._era)
        self._weak_references.append(storage._weak_ref())
        return memory
