"""Tells apart calls with the same place: the turns of a module called several times, the parameters of an optimizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jumar.comparison.align.matching import Dataflow, overwrites_first
from jumar.comparison.model.calls import Call, Names, PlainNames, plain_path
from jumar.recording.schema import CallRow, TensorRow

SAME_BATCH = 0.5
"""Share of the forward calls of the first turn that must agree in shape for batches to be of one size."""

BACKWARD = -1
"""Turn of the calls of a backward pass. They run from the last turn to the first and do not show which turn it is."""

AGAIN = -2
"""Turn of the calls of a forward pass that a backward pass runs again (checkpointing of activations)."""

FIGURES = ("minimum", "maximum", "mean", "l2", "num_nan", "num_inf")

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


def set_apart_recomputed(calls: Iterable[Call]) -> None:
    """Note in each call of a backward pass that it runs a call of the forward pass again, by the figures of what both
    read and make. They are of the module and phase of true gradients, with which they must not be paired."""
    forward: set[tuple[object, ...]] = set()
    for call in calls:
        if call.row.kind != "op" or call.layout_only:
            continue
        if call.row.phase == "forward":
            forward.add(result_of(call))
        elif call.row.phase == "backward" and (result := result_of(call)) and result in forward:
            call.turn = AGAIN


def result_of(call: Call) -> tuple[object, ...]:
    """Return what a call and its exact repetition have in common; empty where no figures of its results were taken."""
    made = [figures_of(tensor) for tensor in call.outputs.values()]
    if not made or not all(made):
        return ()
    overwritten = overwrites_first(call)
    read = [figures_of(tensor) for name, tensor in call.inputs.items() if not (overwritten and name == "input.0")]
    return call.operator, call.path, tuple(read), tuple(made)


def figures_of(tensor: TensorRow) -> tuple[object, ...]:
    """Return shape and statistics of a tensor; empty where none were taken."""
    if tensor.hash:
        return tensor.shape, tensor.hash
    figures = tuple(getattr(tensor, name) for name in FIGURES)
    return (tensor.shape, *figures) if figures[0] is not None else ()


def same_batch(reference: Iterable[Call], target: Iterable[Call]) -> bool:
    """Return whether the first turns of both sides calculate with batches of one size, as most shapes tell."""
    of_reference, of_target = (
        Counter(call.token for call in calls if call.row.phase == "forward" and call.turn == 0)
        for calls in (reference, target)
    )
    return sum((of_reference & of_target).values()) >= SAME_BATCH * max(of_reference.total(), of_target.total())


Named = dict[int, str]
"""Number of a storage to the parameter that it holds."""


def parameter_names(reference: Iterable[Call], target: Iterable[Call]) -> tuple[Named, Named]:
    """Return the parameters that both sides have under one name. A storage of several parameters is left out: how they
    share it may be another thing on each side."""
    sides = [_stored(calls) for calls in (reference, target)]
    common = set(sides[0].values()) & set(sides[1].values())
    of_reference, of_target = ({at: name for at, name in of.items() if name in common} for of in sides)
    return of_reference, of_target


def _stored(calls: Iterable[Call]) -> Named:
    found: Named = {}
    shared = {0}
    for call in calls:
        if call.row.kind == "parameter":
            for tensor in call.outputs.values():
                name = f"{call.place}.{call.operator}"
                if found.setdefault(tensor.storage, name) != name:
                    shared.add(tensor.storage)
    return {storage: name for storage, name in found.items() if storage not in shared}


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
