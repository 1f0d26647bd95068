"""The tensors of one side in PyTorch's form: `units_of`.

A slot holds the steps that bring the stored tensor into PyTorch's layout: a kernel of Keras is transposed, a fused
projection of query, key and value is three units. Two sides in this form are matched without a thought of layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jumar.export.mapping.form.keras import keras_slots, numbered, separable
from jumar.export.mapping.form.unit import Slot, Unit, signed
from jumar.export.mapping.form.words import WRAPPERS, leaf_of, parts_of
from jumar.export.mapping.sides.side import Side
from jumar.export.mapping.transforms import TRANSPOSE, Shape, Step, Steps, shape_after
from jumar.recording.foreign.formats.checkpoints import WITHOUT_COUNTERPART

FUSED = {"in_proj", "c_attn", "qkv", "wqkv", "query_key_value", "qkv_proj", "to_qkv"}
"""Names of one projection for query, key and value."""
ORDER_KNOWN = {"in_proj", "c_attn"}
"""Those whose parts are known to follow each other; others may hold them head by head."""


def units_of(side: Side) -> list[Unit]:
    """Return the units of a side, in its order."""
    parts = _bare({name: parts_of(name, side.framework) for name in side.tensors if not is_counter(name)})
    grouped: dict[tuple[str, ...], dict[str, str]] = {}
    for name, found in parts.items():
        path, last = found[:-1], found[-1] if found else name
        for suffix in ("_weight", "_bias"):  # of nn.MultiheadAttention: in_proj_weight
            if last in {"in_proj" + suffix, "qkv" + suffix}:
                path, last = (*path, last.removesuffix(suffix)), suffix[1:]
        if path and path[-1] == "vars":
            path = path[:-1]
        grouped.setdefault(path, {})[last] = name
    units = [_unit(side, path, own) for path, own in grouped.items()]
    found_units = [part for unit in units for part in separable(unit)]
    return [signed(replace(unit, place=place)) for place, unit in enumerate(_doubtful(found_units))]


def is_counter(name: str) -> bool:
    """Return whether only PyTorch has this tensor, and no calculation needs it."""
    return name.rpartition(".")[2] in WITHOUT_COUNTERPART


def _bare(parts: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the paths without a wrapper that stands before all of them."""
    while parts and all(len(path) > 1 for path in parts.values()):
        firsts = {path[0] for path in parts.values()}
        if len(firsts) > 1 or not firsts <= {*WRAPPERS, "layers", "network", "_layer_checkpoint_dependencies"}:
            break
        parts = {name: path[1:] for name, path in parts.items()}
    return parts


def _unit(side: Side, path: tuple[str, ...], own: Mapping[str, str]) -> Unit:
    shapes = {last: side.tensors[name].shape for last, name in own.items()}
    kind = side.classes.get(next(iter(own.values())).rpartition(".")[0], "")
    named = numbered(shapes) if all(last.isdigit() for last in own) and side.framework == "tensorflow" else {}
    if named:
        own, shapes = {named[last]: name for last, name in own.items()}, {named[last]: s for last, s in shapes.items()}
    if side.framework == "tensorflow":
        slots = keras_slots(path, own, shapes)
    else:
        slots = {leaf_of(last): _plain(last, own, shapes, kind, side.framework) for last in own}
    return Unit(path, slots, 0, kind)


def _plain(last: str, own: Mapping[str, str], shapes: Mapping[str, Shape], kind: str, framework: str) -> Slot:
    """Return a slot of PyTorch or MindSpore; a matrix whose bias counts its columns is [in, out]."""
    shape, leaf, bias = shapes[last], leaf_of(last), shapes.get("bias")
    steps: Steps = ()
    if leaf == "weight" and len(shape) == 2 and framework == "pytorch":
        by_bias = bias is not None and len(bias) == 1 and bias[0] == shape[1] != shape[0]
        if by_bias or kind == "Conv1D":
            steps = (TRANSPOSE,)
    if framework == "mindspore" and leaf == "weight" and len(shape) == 4 and shape[2] == 1 and kind == "Conv1d":
        steps = (Step("reshape", (*shape[:2], shape[3])),)
    return Slot(leaf, shape_after(steps, (shape,)), own[last], steps)


def _doubtful(units: Sequence[Unit]) -> list[Unit]:
    """Return the units; where all other matrices with a bias are [in, out], square ones are taken to be, too."""
    matrices = [
        unit for unit in units if {"weight", "bias"} <= unit.slots.keys() and len(unit.slots["weight"].shape) == 2
    ]
    square = [unit for unit in matrices if len(set(unit.slots["weight"].shape)) == 1 and not unit.kind]
    turned = [unit for unit in matrices if unit.slots["weight"].steps == (TRANSPOSE,) and unit not in square]
    if not turned:
        return list(units)
    told = [unit for unit in matrices if unit not in square]
    if any(unit.slots["weight"].name.endswith(("kernel", "kernel:0")) for unit in turned):
        return list(units)  # Keras: always turned
    steps = (TRANSPOSE,) if len(turned) * 2 > len(told) else ()
    doubt = "square: its layout is that of the other matrices of the file, and its shape does not show it"
    changed = {
        id(unit): replace(unit, slots={**unit.slots, "weight": replace(unit.slots["weight"], steps=steps, doubt=doubt)})
        for unit in square
    }
    return [changed.get(id(unit), unit) for unit in units]


def with_split(units: Sequence[Unit], other: Sequence[Unit]) -> list[Unit]:
    """Return the units with fused projections as three, where the other side has fewer units of that shape."""
    found: list[Unit] = []
    for unit in units:
        weight = unit.slots.get("weight")
        name = unit.path[-1].lower() if unit.path else ""
        fits = weight is not None and len(weight.shape) == 2 and weight.shape[0] == 3 * weight.shape[1]
        if not (fits and name in FUSED and weight is not None):
            found.append(unit)
            continue
        own, others = (sum(one.signature == unit.signature for one in many) for many in (units, other))
        found += _parts(unit, name) if own > others else [unit]
    return [replace(unit, place=place) for place, unit in enumerate(found)]


def _parts(unit: Unit, name: str) -> list[Unit]:
    doubt = "" if name in ORDER_KNOWN else f"{name} may hold query, key and value one after another or head by head"
    found = []
    for number, part in enumerate("qkv"):
        slots = {
            leaf: replace(
                slot,
                shape=(slot.shape[0] // 3, *slot.shape[1:]),
                steps=(*slot.steps, Step("split", (number, 3, 0))),
                doubt=slot.doubt or doubt,
            )
            for leaf, slot in unit.slots.items()
        }
        found.append(signed(replace(unit, path=(*unit.path[:-1], part), slots=slots)))
    return found
