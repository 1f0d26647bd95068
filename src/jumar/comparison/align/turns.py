"""Tells apart calls with the same place: the turns of a module called several times, the parameters of an optimizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jumar.comparison.align.matching import Dataflow
from jumar.comparison.model.calls import Call, Names, PlainNames, plain_path
from jumar.recording.schema import CallRow

SAME_BATCH = 0.5
"""Share of the forward calls of the first turn that must agree in shape for batches to be of one size."""

BACKWARD = -1
"""Turn of the calls of a backward pass. They run from the last turn to the first and do not show which turn it is."""

Counts = dict[str, tuple[int, int]]
"""Place to how often the reference and the target call the module; the root is empty."""


def repeated_modules(
    reference: Sequence[CallRow], target: Sequence[CallRow], names: tuple[Names | None, Names | None]
) -> Counts:
    """Return the modules, topmost only, that the runs call another number of times in the forward pass."""
    of_reference, of_target = _times(reference, names[0] or PlainNames()), _times(target, names[1] or PlainNames())
    counts = {
        place: (times, of_target[place])
        for place, times in of_reference.items()
        if of_target.get(place, times) != times
    }
    if "" in counts:
        return {"": counts[""]}
    return {place: both for place, both in counts.items() if not any(above in counts for above in _above(place))}


def _above(place: str) -> Iterator[str]:
    while place := place.rpartition(".")[0]:
        yield place


def _times(rows: Iterable[CallRow], names: Names) -> Counter[str]:
    paths = Counter(row.module_path for row in rows if row.kind == "module" and row.phase == "forward")
    counts: Counter[str] = Counter()
    for path, times in paths.items():
        counts[names.place(plain_path(path))[1]] += times
    return counts


def set_turns(
    calls: Sequence[Call], rows: Iterable[CallRow], names: Names | None, repeated: Mapping[str, object]
) -> None:
    """Note in each call inside a repeated module in which of its turns it is."""
    names = names or PlainNames()
    ends: list[tuple[int, str]] = []
    for row in rows:
        if row.kind == "module" and row.phase == "forward":
            place = names.place(plain_path(row.module_path))[1]
            if place in repeated:
                ends.append((row.seq, place))
    finished: Counter[str] = Counter()
    ends.reverse()
    for call in calls:
        if call.row.phase == "optimizer" or call.row.kind != "op":
            continue
        while ends and ends[-1][0] < call.row.seq:
            finished[ends.pop()[1]] += 1
        top = next((place for place in (call.place, *_above(call.place), "") if place in repeated), None)
        if top is not None:
            call.turn = finished[top] if call.row.phase == "forward" else BACKWARD


def same_batch(reference: Iterable[Call], target: Iterable[Call]) -> bool:
    """Return whether the first turns of both sides calculate with batches of one size, as most shapes tell."""
    of_reference, of_target = (
        Counter(call.token for call in calls if call.row.phase == "forward" and call.turn == 0)
        for calls in (reference, target)
    )
    return sum((of_reference & of_target).values()) >= SAME_BATCH * max(of_reference.total(), of_target.total())


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
