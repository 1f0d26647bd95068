"""Compares layers that apply an activation to their result themselves: `join`.

Keras' row of `Dense(activation="relu")` holds the result after the activation, PyTorch's row of `Linear` the one
before. Where PyTorch's program calls a module for the activation next, both are taken as one layer, whose result is the
module's. Where it calls a function, or nothing, the layer's own result has no partner: it is left out, and a sentence
says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jumar.base.text import listing
from jumar.comparison.model.calls import Call, plain_path
from jumar.recording.schema import CallRow, TensorRow

SHOWN = 4
Paths = Mapping[str, str]
"""By path, PyTorch's class of the activation that a layer applies."""


@dataclass(slots=True)
class Joined:
    """The calls of both sides, and what is not compared for it."""

    sides: tuple[list[Call], list[Call]]
    sentences: tuple[str, ...] = ()


@dataclass(slots=True)
class _Changes:
    """New forms of calls, by the identity of the call; None for one that is part of another."""

    of: dict[int, Call | None] = field(default_factory=dict)
    apart: dict[str, str] = field(default_factory=dict)
    """Layers whose results are not compared: path in the reference's naming, and the activation."""

    def now(self, call: Call) -> Call:
        """Return a call as it is after the changes so far."""
        return self.of.get(id(call)) or call


def join(sides: tuple[list[Call], list[Call]], activations: tuple[Paths, Paths]) -> Joined:
    """Return the calls with each layer that has an activation built in beside its partner and that one's activation."""
    changes = _Changes()
    for side in (0, 1):
        if activations[side]:
            _join_side(sides[side], sides[1 - side], activations[side], activations[1 - side], changes)
    if not changes.of:
        return Joined(sides)
    first, second = ([call for one in calls if (call := changes.of.get(id(one), one))] for calls in sides)
    return Joined((first, second), _sentences(changes.apart))


def _join_side(
    own: Sequence[Call], others: Sequence[Call], activations: Paths, of_others: Paths, changes: _Changes
) -> None:
    partners = _by_turn(others)
    places = {call.place for call in own if call.row.kind == "module"}
    followers: dict[tuple[str, int], Call | None] = {}
    for call, key in _turns(own):
        path = plain_path(call.row.module_path)
        partner = partners.get(key)
        if path not in activations or partner is None or plain_path(partner.row.module_path) in of_others:
            continue
        phase, place, turn = key
        if phase == "forward":
            follower = followers[place, turn] = _follower(partner, others, activations[path], places)
            _join_forward((call, partner, follower), (own, others), changes)
        else:
            of_forward = followers.get((place, turn))
            follower = partners.get((phase, of_forward.place, turn)) if of_forward is not None else None
            _join_backward((call, partner, follower), (own, others), changes)
        if follower is None:
            changes.apart[call.path] = activations[path]


Key = tuple[str, str, int]
"""Phase, place and which of the module's calls in this phase, from 0."""


def _turns(calls: Iterable[Call]) -> list[tuple[Call, Key]]:
    num: Counter[tuple[str, str]] = Counter()
    found: list[tuple[Call, Key]] = []
    for call in calls:
        if call.row.kind == "module":
            at = call.row.phase, call.place
            found.append((call, (*at, num[at])))
            num[at] += 1
    return found


def _by_turn(calls: Iterable[Call]) -> dict[Key, Call]:
    return {key: call for call, key in _turns(calls)}


def _follower(call: Call, calls: Sequence[Call], kind: str, places: set[str]) -> Call | None:
    """Return the module that applies an activation of the class `kind` to the result of `call`; None for none.

    `places` are those of the other side's modules: one that has a partner of its own is not it.
    """
    made = next(iter(call.outputs.values()), None)
    if made is None:
        return None
    for other in calls:
        row = other.row
        if row.kind != "module" or row.phase != "forward" or row.seq <= call.row.seq:
            continue
        if any(is_same(tensor, made) for tensor in other.inputs.values()):
            return other if other.operator == kind and other.place not in places else None
    return None


Three = tuple[Call, Call, Call | None]
"""A layer with an activation, its partner without one, and the partner's activation."""
Both = tuple[Sequence[Call], Sequence[Call]]


def _join_forward(three: Three, both: Both, changes: _Changes) -> None:
    call, partner, follower = three
    if follower is not None:
        homes = _homes(partner, partner.inputs) | _homes(follower, follower.outputs)
        changes.of[id(partner)] = replace(changes.now(partner), outputs=follower.outputs, homes=homes)
        changes.of[id(follower)] = None
        return
    for one in (call, partner):
        _leave_out(one, "outputs", set(one.outputs), changes)
    _leave_out_around(three, both, "outputs", changes)


def _join_backward(three: Three, both: Both, changes: _Changes) -> None:
    """Do the same for gradients: that of the result is after the activation on one side, before it on the other."""
    call, partner, follower = three
    if follower is not None:
        homes = _homes(follower, follower.inputs) | _homes(partner, partner.outputs)
        changes.of[id(partner)] = replace(changes.now(partner), inputs=follower.inputs, homes=homes)
        changes.of[id(follower)] = None
        return
    for one in (call, partner):
        _leave_out(one, "inputs", set(one.inputs), changes)
    _leave_out_around(three, both, "inputs", changes)


def _leave_out_around(three: Three, both: Both, side: str, changes: _Changes) -> None:
    """Leave out what modules around the layer hand on of it, where those around its partner hand on the other thing."""
    call, partner, _ = three
    own, others = (
        [one for one in calls if _is_around(one, at)] for calls, at in zip(both, (call, partner), strict=True)
    )
    for around in own:
        beside = next((one for one in others if one.place == around.place), None)
        if beside is None:
            continue
        handed = {
            name
            for name, tensor in getattr(around, side).items()
            if _holds(call, side, tensor) and _hands_on(beside, partner, side, name)
        }
        for one in (around, beside) if handed else ():
            _leave_out(one, side, handed, changes)


def _leave_out(call: Call, side: str, names: set[str], changes: _Changes) -> None:
    now = changes.now(call)
    left = {name: tensor for name, tensor in getattr(now, side).items() if name not in names}
    changes.of[id(call)] = replace(now, outputs=left) if side == "outputs" else replace(now, inputs=left)


def _is_around(one: Call, call: Call) -> bool:
    inside = not one.place or call.place.startswith(f"{one.place}.")
    return one.row.kind == "module" and one.row.phase == call.row.phase and one.place != call.place and inside


def _holds(call: Call, side: str, tensor: TensorRow) -> bool:
    return any(is_same(tensor, one) for one in getattr(call, side).values())


def _hands_on(around: Call, call: Call, side: str, name: str) -> bool:
    tensor = getattr(around, side).get(name)
    return tensor is not None and _holds(call, side, tensor)


def is_same(one: TensorRow, other: TensorRow) -> bool:
    """Return whether two rows are of one tensor: one storage, where it is known, and equal figures."""
    figures = [(t.shape, t.minimum, t.maximum, t.mean, t.l2, t.num_nan, t.num_inf) for t in (one, other)]
    if figures[0] != figures[1]:
        return False
    return one.storage == other.storage if one.storage and other.storage else one.l2 is not None


def _homes(call: Call, tensors: Mapping[str, TensorRow]) -> dict[int, CallRow]:
    return {id(tensor): call.row_of(tensor) for tensor in tensors.values()}


def _sentences(apart: Mapping[str, str]) -> tuple[str, ...]:
    if not apart:
        return ()
    layers = listing([f"{path} ({kind})" for path, kind in apart.items()], SHOWN)
    return (
        "one run's layers apply their activation themselves, and the other run calls no module for it: their own "
        f"results are not compared, those of the modules after them are ({layers})",
    )
