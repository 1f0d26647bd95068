"""Layouts of Keras' layers and PyTorch's for them: `keras_slots`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jumar.export.mapping.form.unit import Slot, Unit
from jumar.export.mapping.form.words import leaf_of, words_of
from jumar.export.mapping.transforms import TRANSPOSE, Shape, Step, Steps, shape_after


def keras_slots(path: tuple[str, ...], own: Mapping[str, str], shapes: Mapping[str, Shape]) -> dict[str, Slot]:
    """Return the slots of a layer of Keras by PyTorch's names of the parameters."""
    if "recurrent_kernel" in own and "kernel" in own:
        return _recurrent(own, shapes)
    found: dict[str, Slot] = {}
    bias = shapes.get("bias", ())
    for last, name in own.items():
        steps = _kernel_steps(last, shapes[last], bias, path)
        leaf = last if last == "pointwise_kernel" else leaf_of(last)
        found[leaf] = Slot(leaf, shape_after(steps, (shapes[last],)), name, steps)
    return found


def numbered(shapes: Mapping[str, Shape]) -> dict[str, str]:
    """Return the names of Keras for the numbered variables of one layer, as its layers make them."""
    order = sorted(shapes, key=int)
    ranks = [len(shapes[last]) for last in order]
    if len(order) == 4 and set(ranks) == {1}:
        names = ["gamma", "beta", "moving_mean", "moving_variance"]
    elif set(ranks) == {1}:
        names = ["gamma", "beta"][: len(order)]
    elif len(order) == 3 and ranks[:2] == [2, 2]:
        names = ["kernel", "recurrent_kernel", "bias"]
    else:
        names = ["kernel", "bias"][: len(order)]
    return dict(zip(order, names, strict=True)) if len(names) == len(order) else {}


def _kernel_steps(last: str, shape: Shape, bias: Shape, path: Sequence[str]) -> Steps:
    """Return the steps from a kernel of Keras (the guides of its layers give the layouts) to PyTorch's weight."""
    if len(shape) == 4 and _is_depthwise(last, shape, bias, path):
        height, width, channels, times = shape
        return (Step("permute", (2, 3, 0, 1)), Step("reshape", (channels * times, 1, height, width)))
    if last == "bias" and len(shape) == 2:
        return (Step("reshape", (math.prod(shape),)),)
    if last not in {"kernel", "pointwise_kernel"}:
        return ()
    if len(shape) == 3:
        if len(bias) == 2 or (words_of(path[-1] if path else "")[:1] in {("q",), ("k",), ("v",)}):
            return (Step("reshape", (shape[0], shape[1] * shape[2])), TRANSPOSE)
        if path and "out" in words_of(path[-1]):
            return (Step("reshape", (shape[0] * shape[1], shape[2])), TRANSPOSE)
    return {
        2: (TRANSPOSE,),
        3: (Step("permute", (2, 1, 0)),),
        4: (Step("permute", (3, 2, 0, 1)),),
        5: (Step("permute", (4, 3, 0, 1, 2)),),
    }.get(len(shape), ())


def _is_depthwise(last: str, shape: Shape, bias: Shape, path: Sequence[str]) -> bool:
    """Return whether a kernel is [H, W, in, multiplier]. Newer Keras names it `kernel`: the bias tells, or the path."""
    if last != "kernel" or not path:
        return last == "depthwise_kernel"
    if bias:
        return bias[0] == shape[2] * shape[3] != shape[3]
    return "depth" in path[-1].lower() or shape[3] == 1 < shape[2]


def _recurrent(own: Mapping[str, str], shapes: Mapping[str, Shape]) -> dict[str, Slot]:
    """Return the slots of a recurrent layer of Keras: an LSTM's gates are PyTorch's i f c o, a GRU's z r h."""
    hidden, columns = shapes["recurrent_kernel"]
    gates: Steps = (Step("gates", (0,), ("zrn", "rzn")),) if columns == 3 * hidden else ()
    found = {}
    for last, leaf in (("kernel", "weight_ih_l0"), ("recurrent_kernel", "weight_hh_l0")):
        steps = (TRANSPOSE, *gates)
        found[leaf] = Slot(leaf, shape_after(steps, (shapes[last],)), own[last], steps)
    if "bias" in own and len(shapes["bias"]) == 2:
        for number, leaf in enumerate(("bias_ih_l0", "bias_hh_l0")):
            steps = (Step("split", (number, 2, 0)), Step("reshape", (columns,)), *gates)
            found[leaf] = Slot(leaf, (columns,), own["bias"], steps)
    elif "bias" in own:
        found["bias_l0"] = Slot("bias_l0", (columns,), own["bias"], gates)
    return found


def separable(unit: Unit) -> list[Unit]:
    """Return a separable convolution of Keras as two units, as PyTorch has it."""
    if "pointwise_kernel" not in unit.slots:
        return [unit]
    depth = {"weight": unit.slots["weight"]}
    point = {"weight": replace(unit.slots["pointwise_kernel"], leaf="weight")}
    if "bias" in unit.slots:
        point["bias"] = unit.slots["bias"]
    return [
        replace(unit, path=(*unit.path, "depthwise"), slots=depth),
        replace(unit, path=(*unit.path, "pointwise"), slots=point),
    ]
