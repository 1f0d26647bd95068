"""Says why a module or parameter that one framework's run has alone is no difference: `reasons_of`.

A program may call a function where another one has a module: a layer without parameters is explained where a call after
it is compared. What a layer holds inside is explained by the layer's own comparison. Parameters of recurrent layers and
of attention, which frameworks cut up in other ways, are explained where both sides have such ones left over. What is
explained was not compared, and is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jumar.base.text import counted, listing
from jumar.comparison.model.calls import Call, plain_path
from jumar.comparison.model.frameworks.foreign import LAYERS, STATELESS, Foreign
from jumar.comparison.model.kinds import LOSSES
from jumar.operators.layers import CLASSES

FUNCTION = (
    "has no parameters, so that the other program may call a function in its stead, and calls after it are compared"
)
PART = "is a part of a layer whose result is compared"
AROUND = "holds modules whose calls are compared"
LOSS = "is a loss, and the losses of the steps are compared"
GRADIENT = "hands on a gradient that the other run does not show, and the gradients of its parameters are compared"
OTHER_FORM = "is held in another form by the other framework"

CUT_UP = frozenset({"LSTM", "GRU", "RNN", "MultiheadAttention"})
"""Layers whose parameters frameworks hold in other forms: one bias or two, one matrix or one a head."""
ONE_BIAS = frozenset({"LSTM", "RNN"})
"""Layers with one bias in Keras and two in PyTorch."""
TWICE = (
    "PyTorch trains two biases of a recurrent layer where Keras trains their sum: with one learning rate the sum moves "
    "up to twice as far in PyTorch"
)
_ANY = frozenset({"", "Activation", "Lambda", "TFOpLambda"})
"""Classes whose name does not say what they calculate."""
GRADIENT_ROW = "input.grad"
SHOWN = 4


def reasons_of(
    foreign: Foreign,
    sides: tuple[Sequence[Call], Sequence[Call]],
    partners: tuple[Sequence[int], Sequence[int]],
    *,
    losses: bool,
) -> dict[int, str]:
    """Return the reason for each explained call without a partner, by the call's `id`.

    `partners` are, for each call of a side, the place of its partner on the other side, -1 for none. `losses` tells
    whether both runs have losses in the step.
    """
    found: dict[int, str] = {}
    left = [
        [call for call, other in zip(*side, strict=True) if other < 0] for side in zip(sides, partners, strict=True)
    ]
    for side in (0, 1):
        paired = _Paired([call for call, other in zip(sides[side], partners[side], strict=True) if other >= 0])
        modules = [call for call in left[1 - side] if call.row.kind == "module"]
        others = {_at(call): kind for call in modules if (kind := foreign.layer_of(call.row, 1 - side)) not in _ANY}
        for call in left[side]:
            kind = foreign.class_of(call.row, side)
            if call.row.kind != "module" or (kind not in _ANY and others.get(_at(call), kind) != kind):
                continue  # where the other run has another layer, none of both is a function
            if reason := _of_module(call, side, foreign, paired, losses=losses):
                found[id(call)] = reason
    found.update(_of_parameters(foreign, left))
    return found


def _at(call: Call) -> tuple[str, str]:
    return call.row.phase, plain_path(call.row.module_path)


class _Paired:
    """Modules of a side that have a partner."""

    def __init__(self, calls: Sequence[Call]) -> None:
        modules = [call for call in calls if call.row.kind == "module"]
        self.places = {call.place: call for call in modules}
        self.last = {call.row.phase: call.row.seq for call in modules if call.outputs}
        """By phase, the last one that has a result."""
        self.trained = {call.place for call in calls if call.row.kind == "parameter" and GRADIENT_ROW in call.inputs}


def _of_module(call: Call, side: int, foreign: Foreign, paired: _Paired, *, losses: bool) -> str:
    kind = foreign.class_of(call.row, side)
    above = [paired.places[place] for place in _above(call.place) if place in paired.places]
    if any(foreign.layer_of(one.row, side) for one in above):
        return PART
    if call.row.phase == "backward" and call.place in paired.trained and call.place in paired.places:
        return GRADIENT
    if kind in LOSSES:
        return LOSS if losses else ""
    if kind in STATELESS:
        return FUNCTION if paired.last.get(call.row.phase, -1) > call.row.seq else ""
    begins = f"{call.place}." if call.place else ""
    return AROUND if kind not in LAYERS and any(place.startswith(begins) for place in paired.places) else ""


def _above(place: str) -> Iterable[str]:
    while "." in place:
        place = place.rpartition(".")[0]
        yield place


def _of_parameters(foreign: Foreign, left: Sequence[Sequence[Call]]) -> dict[int, str]:
    """Return the reason for parameters of cut up layers, where both sides have some left over in one place."""
    tops: list[dict[str, list[Call]]] = [{}, {}]
    for side in (0, 1):
        layers = {path for path, kind in foreign.classes[side].items() if kind in CUT_UP}
        for call in left[side]:
            if call.row.kind == "parameter":
                place = _top(call, layers, foreign, side)
                if place is not None:
                    tops[side].setdefault(place, []).append(call)
    common = tops[0].keys() & tops[1].keys()
    return {id(call): OTHER_FORM for side in tops for place in common for call in side[place]}


def _top(call: Call, layers: set[str], foreign: Foreign, side: int) -> str | None:
    """Return the place of the cut up layer that a parameter is of; None for other parameters."""
    if foreign.class_of(call.row, side) in CUT_UP:
        return call.place
    path, place = call.row.module_path, call.place
    while path and place:
        if path in layers:
            return place
        path, place = path.rpartition(".")[0], place.rpartition(".")[0]
    return None


def _class_of(call: Call) -> str:
    """Return PyTorch's class of the layer that a parameter is of."""
    return CLASSES.get(call.row.module_type, call.row.module_type)


def sentences_of(calls: Iterable[Call], reasons: Mapping[int, str]) -> list[str]:
    """Return what of the parameters was not compared for being held in another form."""
    left = [call for call in calls if call.row.kind == "parameter" and id(call) in reasons]
    if not left:
        return []
    names = [".".join(filter(None, (call.path, call.row.name))) for call in left]
    sentences = [
        f"{counted(len(left), 'parameter')} were not compared, because the two frameworks hold them in another form: "
        f"{listing(names, SHOWN)}"
    ]
    if any(call.row.name == "bias" and _class_of(call) in ONE_BIAS for call in left):
        sentences.append(TWICE)
    return sentences
