"""For which parameter each call of an optimizer works.

An optimizer's calls carry no module. What they read together (parameter, gradient, states) belongs to
one parameter, and the module that read the parameter, or whose backward pass wrote the gradient, is its
home.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.accuracy.calls import Call
from jumar.accuracy.dataflow import Dataflow

Home = tuple[str, tuple[int, ...]]
"""Place of the module and shape of the parameter."""


def homes(calls: Sequence[Call], flow: Dataflow) -> dict[int, Home]:
    """Return the home of the optimizer's calls, by their index, where it is known."""
    if not flow.known or not any(call.row.phase == "optimizer" for call in calls):
        return {}
    first_place: dict[int, str] = {}
    groups = _Groups()
    for call in calls:
        tensors = (*call.inputs.values(), *call.outputs.values())
        if call.row.phase != "optimizer":
            for tensor in tensors:
                first_place.setdefault(tensor.storage, call.place)
        elif call.row.kind == "op":
            groups.join([tensor.storage for tensor in tensors if tensor.shape])
    home_of: dict[int, str] = {}
    for storage, place in first_place.items():
        home_of.setdefault(groups.root(storage), place)
    found = {}
    for index, call in enumerate(calls):
        if call.row.phase == "optimizer" and call.row.kind == "op":
            main = next((tensor for tensor in call.inputs.values() if tensor.shape), None)
            home = home_of.get(groups.root(main.storage)) if main is not None else None
            if main is not None and home is not None:
                found[index] = home, main.shape
    return found


class _Groups:
    """Disjoint sets of storages."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def root(self, storage: int) -> int:
        parents = self._parents
        while (parent := parents.get(storage, storage)) != storage:
            parents[storage] = parents.get(parent, parent)
            storage = parent
        return storage

    def join(self, storages: Sequence[int]) -> None:
        if storages:
            first = self.root(storages[0])
            for storage in storages[1:]:
                self._parents[self.root(storage)] = first
