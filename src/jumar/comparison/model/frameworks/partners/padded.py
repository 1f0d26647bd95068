"""Layers whose input one program pads itself and the other lets the layer pad: `without_padded`.

PyTorch's `Conv2d(padding=1)` is in TensorFlow `tf.pad` and a convolution with `padding="valid"`: "same" would pad at
one end only where the stride is 2. The results are the same; the inputs, and their gradients, are of two sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from jumar.base.text import listing
from jumar.comparison.model.calls import Call
from jumar.recording.schema import TensorRow

_SHOWN = 4
_PADS = ("Conv", "MaxPool", "AvgPool")


def without_padded(sides: tuple[list[Call], list[Call]]) -> tuple[tuple[list[Call], list[Call]], tuple[str, ...]]:
    """Return the calls without the inputs, and their gradients, that differ by padding alone, and a sentence of them.

    Calls of a layer are paired by phase, place and turn; where numbers of calls differ, the first ones are.
    """
    changed: tuple[dict[int, Call], dict[int, Call]] = ({}, {})
    told: dict[str, None] = {}
    for pair in _pairs(*sides):
        side = "inputs" if pair[0].row.phase == "forward" else "outputs"
        one, other = (getattr(call, side) for call in pair)
        names = {name for name in one if name in other and _is_padded(one[name], other[name])}
        if not names:
            continue
        told[pair[0].path] = None
        kept = {name for name in names if side == "inputs" and _has_figures(one[name], other[name])}
        for calls, call in zip(changed, pair, strict=True):
            left = {
                name: _unpadded(tensor, min(one[name].shape, other[name].shape)) if name in kept else tensor
                for name, tensor in getattr(call, side).items()
                if name not in names or name in kept
            }
            homes = {id(left[name]): call.row for name in kept}
            changed_call = replace(call, inputs=left) if side == "inputs" else replace(call, outputs=left)
            calls[id(call)] = replace(changed_call, homes=homes)
    first, second = ([of.get(id(call), call) for call in calls] for of, calls in zip(changed, sides, strict=True))
    return (first, second), _sentences(list(told))


def _pairs(reference: Sequence[Call], target: Sequence[Call]) -> list[tuple[Call, Call]]:
    of_target: dict[tuple[str, str], list[Call]] = {}
    for call in target:
        if _pads(call):
            of_target.setdefault((call.row.phase, call.place), []).append(call)
    found = []
    for call in reference:
        others = of_target.get((call.row.phase, call.place))
        if _pads(call) and others:
            found.append((call, others.pop(0)))
    return found


def _pads(call: Call) -> bool:
    return call.row.kind == "module" and call.operator.startswith(_PADS)


def _is_padded(one: TensorRow, other: TensorRow) -> bool:
    """Tell whether one image is larger than the other in its spatial dimensions, and in no other."""
    first, second = one.shape, other.shape
    if len(first) != len(second) or len(first) < 3 or first[:2] != second[:2] or first == second:
        return False
    pairs = list(zip(first[2:], second[2:], strict=True))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)


def _has_figures(one: TensorRow, other: TensorRow) -> bool:
    return one.l2 is not None and other.l2 is not None and one.mean is not None and other.mean is not None


def _unpadded(tensor: TensorRow, shape: tuple[int, ...]) -> TensorRow:
    """Return the row as it is without the zeros around it: they change neither its norm nor its sum."""
    ratio = math.prod(tensor.shape) / max(math.prod(shape), 1)
    low, high = min(tensor.minimum or 0.0, 0.0), max(tensor.maximum or 0.0, 0.0)
    mean = (tensor.mean or 0.0) * ratio
    return replace(tensor, shape=shape, minimum=low, maximum=high, mean=mean, sketch=None, hash="")


def _sentences(paths: Sequence[str]) -> tuple[str, ...]:
    if not paths:
        return ()
    return (
        "one run pads the input of a layer before it, and the other within it: of these inputs only norm, sum, minimum "
        f"and maximum are compared, of their gradients nothing ({listing(list(paths), _SHOWN)})",
    )
