"""Buffers, parameters that no optimizer trains, and copies of models that are never called (an EMA): `Untrained`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Collection, Iterator
from typing import Any

from torch import nn

from jumar.capture.history.batch import Batch
from jumar.capture.watch.naming import ModuleNames, named_modules, unwrap
from jumar.recording.history.model import Role


class _Slot:
    """Where a module holds a tensor now, and under which name it is noted."""

    __slots__ = ("holder", "key", "module", "name", "owner", "role")

    def __init__(self, module: nn.Module, holder: str, key: str, role: Role, owner: str, name: str) -> None:
        self.module = weakref.ref(module)
        self.holder, self.key = holder, key
        self.role, self.owner, self.name = role, owner, name

    def tensor(self) -> Any:
        """Return the tensor, None where the module or the tensor is gone."""
        return getattr(self.module(), self.holder, {}).get(self.key)


class Untrained:
    """Modules of the process are looked for by `search`, which takes a pass over all objects."""

    def __init__(self, names: ModuleNames) -> None:
        self._names = names
        self._slots: list[_Slot] = []
        self._labels: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self._num_of_class: dict[str, int] = {}

    def is_due(self, step: int) -> bool:
        """Tell whether `search` runs at the end of `step`: of 0, 1, 3, 7, 15, …, so that it costs next to nothing."""
        return step & (step + 1) == 0

    def search(self) -> None:
        """Find the modules that there are."""
        modules = [item for item in gc.get_objects() if issubclass(type(item), nn.Module)]
        children = {id(child) for module in modules for child in module.__dict__.get("_modules", {}).values()}
        roots = [module for module in modules if id(module) not in children and "_modules" in module.__dict__]
        # NOTE: the collector lists younger objects first, and moves them on from time to time: their order says nothing
        roots.sort(key=lambda root: (type(root).__name__, *self._labels.get(id(root), (None, ""))[1:]))
        self._slots = [slot for root in roots for slot in self._slots_of(root)]

    def add(self, batch: Batch, trained: Collection[int]) -> None:
        """Note all of them but those whose `id` is in `trained`."""
        done = set(trained)
        for slot in self._slots:
            tensor = slot.tensor()
            if tensor is None or id(tensor) in done:
                continue
            done.add(id(tensor))
            if tensor.numel() == 1 or tensor.is_floating_point() or tensor.is_complex():
                batch.add(slot.role, slot.owner, slot.name, "", tensor)

    def _slots_of(self, root: nn.Module) -> Iterator[_Slot]:
        inner = unwrap(root)
        known = self._names.of_number(id(inner))
        role: Role = "copy" if known is None else "buffer"
        owner = self._label(inner) if known is None else ""
        for path, module in named_modules(inner, known or ""):
            for holder in ("_parameters", "_buffers"):
                for key in module.__dict__.get(holder, ()):
                    yield _Slot(module, holder, key, role, owner, f"{path}.{key}" if path else key)

    def _label(self, root: nn.Module) -> str:
        reference, label = self._labels.get(id(root), (None, ""))
        if reference is None or reference() is not root:
            kind = type(root).__name__
            number = self._num_of_class[kind] = self._num_of_class.get(kind, 0) + 1
            label = kind if number == 1 else f"{kind}#{number}"
            self._labels[id(root)] = weakref.ref(root), label
        return label
