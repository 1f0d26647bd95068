"""The formats each operator reads and gives, and the conversions that follow from them.

An operator has three format choices: what its kernel reads for each argument, what the kernel gives, and
what the framework's adapter has declared for the result. Where an argument is not in the format its
kernel reads, or a result is not given in the format declared, a TransData is put in between. Single
operators are looked at one by one, as the device does: nothing is moved across operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jumar.npu.formats.families import Family, family_of
from jumar.npu.formats.names import PRIVATE_FORMATS, Format, base_of_rank
from jumar.npu.formats.shapes import BLOCK, Shape

HALF = "float16"


class Operand(NamedTuple):
    """A tensor of a call, as far as formats go."""

    argument: int
    """Position in the schema, or -1-i for result i."""
    shape: Shape
    dtype: str
    itemsize: int
    format: Format
    """In which an operator can read it (`state.usable_format`)."""
    held: Format
    """Of the memory behind it: another than `format` for a view that has to be converted first."""
    held_shape: Shape
    is_host: bool = False
    writes: int | None = None
    """For a result that is an argument written in place: the index of that argument in `inputs`."""


class Mode(NamedTuple):
    """The switches (`mode`)."""

    online: bool
    """Operators are compiled for their shapes."""
    private: bool
    """Adapters may declare private formats."""
    matmul_nd: bool
    aclnn: bool
    """The chip has aclnn kernels, which take dense formats and matrices of any size: from Ascend910B1 on."""


class Call(NamedTuple):
    """One operator call."""

    operator: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    details: tuple[Any, ...]
    """What a family's rule needs of the other arguments: for a convolution's backward its mask and groups."""
    mode: Mode


@dataclass(frozen=True, slots=True)
class Choice:
    """One format for each input (None: as it is) and for each output, by the kernel and as declared."""

    reads: tuple[Format | None, ...]
    gives: tuple[Format, ...]
    declared: tuple[Format, ...]
    more: tuple[tuple[int, Format], ...] = ()
    """What further kernels of the operator read: index of the input, format."""


Rule = Callable[[Call], Choice]


def choose(call: Call) -> Choice:
    """Return the formats of this call."""
    family = family_of(call.operator)
    if family is Family.UNTOUCHED:
        return Choice((None,) * len(call.inputs), _held(call.outputs), _held(call.outputs))
    if not _is_graph(call, family):
        return _dense_kernels(call)
    chosen = _RULES[family](call)
    declared = tuple(
        base_of_rank(len(item.shape)) if _cannot_be(item, format, call.mode) else format
        for item, format in zip(call.outputs, chosen.declared, strict=True)
    )
    return replace(chosen, declared=declared)


def _is_graph(call: Call, family: Family) -> bool:
    """Return whether the operator runs as a graph of its own, which chooses formats, rather than as aclnn kernels.

    Chips without aclnn kernels always do so; the others where operators are compiled, where an argument is in a
    private format, and for convolutions where private formats are allowed (op-plugin's conditions).
    """
    mode = call.mode
    if not mode.aclnn or mode.online or any(item.held in PRIVATE_FORMATS for item in call.inputs):
        return True
    return mode.private and family in (Family.CONVOLUTION, Family.CONVOLUTION_BACKWARD)


def _dense_kernels(call: Call) -> Choice:
    """aclnn: every argument and result is dense."""
    formats = tuple(base_of_rank(len(item.shape)) for item in call.outputs)
    return Choice((None,) * len(call.inputs), formats, formats)


def _cannot_be(item: Operand, format: Format, mode: Mode) -> bool:
    """Return whether a result cannot be declared so: forbidden, 64-bit, or of a rank the format does not hold."""
    if item.writes is not None or format not in PRIVATE_FORMATS:
        return False
    if format in (Format.NDC1HWC0, Format.FRACTAL_Z_3D) and len(item.shape) != 5:
        return True
    if format in (Format.NC1HWC0, Format.FRACTAL_Z) and len(item.shape) > 4:
        return True
    if format is Format.FRACTAL_NZ:
        return len(item.shape) < 2
    return not mode.private or item.dtype in ("float64", "complex64", "complex128") or not item.shape


def _held(items: Sequence[Operand]) -> tuple[Format, ...]:
    return tuple(item.held for item in items)


def _dense(item: Operand) -> Format:
    """Return the dense format of an operand."""
    return base_of_rank(len(item.shape)) if item.format in PRIVATE_FORMATS else item.format


def _is_private(item: Operand) -> bool:
    return item.format in PRIVATE_FORMATS


def _first(call: Call) -> Operand | None:
    """Return the argument whose format the others follow: the first that is not a number."""
    return next((item for item in call.inputs if not item.is_host and item.shape), None)


def _uniform(call: Call, format: Format | None, declared: Format | None = None) -> Choice:
    """Every argument that can is read in `format`, and results are given in it; None is the dense format."""
    reads = tuple(_fitting(item, format) for item in call.inputs)
    gives = tuple(_fitting(item, format) or _dense(item) for item in call.outputs)
    wanted = format if declared is None else declared
    return Choice(reads, gives, tuple(_declared(item, wanted) for item in call.outputs))


def _declared(item: Operand, wanted: Format | None) -> Format:
    """Return the format a result is declared in; one that is written in place keeps that of its memory."""
    if item.writes is not None:
        return item.held
    if wanted is None or wanted not in PRIVATE_FORMATS:
        return base_of_rank(len(item.shape))
    return wanted


def _fitting(item: Operand, format: Format | None) -> Format | None:
    if item.is_host:
        return None
    if format is None or not item.shape or len(item.shape) < 2:
        return _dense(item) if format is None else None
    return format


def _following(call: Call) -> Choice:
    """Element by element: arguments are brought to the first one's format; where shapes differ, blocks must agree.

    `threshold_backward` declares its result like its second argument (the forward's result), which is why a
    dense gradient costs it two conversions (migration guide, ShuffleNetV2, item 8).
    """
    first = _first(call)
    if first is None or not any(_is_private(item) for item in call.inputs):
        return _plain(call)
    source = call.inputs[1] if "threshold_backward" in call.operator and len(call.inputs) > 1 else first
    if not _is_private(first) or _agree(call, first):
        target = first.format
        reads = tuple(_as(item, target, first) for item in call.inputs)
        gives = tuple(target if item.shape == first.shape else _dense(item) for item in call.outputs)
    else:
        reads = tuple(_dense(item) if _is_private(item) else None for item in call.inputs)
        gives = tuple(_dense(item) for item in call.outputs)
    return Choice(reads, gives, tuple(_declared(item, source.format) for item in call.outputs))


def _as(item: Operand, target: Format, first: Operand) -> Format | None:
    if item.is_host or item.format is target:
        return None
    if item.shape == first.shape:
        return target
    return _dense(item) if _is_private(item) else None


def _agree(call: Call, first: Operand) -> bool:
    """Return whether every argument can be read in blocks beside the first: alike, alike in N and C, or one number."""
    return all(
        item.is_host
        or item.shape == first.shape
        or _numel(item.shape) == 1
        or (_is_private(item) and item.format is first.format and item.shape[:2] == first.shape[:2])
        for item in call.inputs
    )


def _numel(shape: Shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _plain(call: Call) -> Choice:
    """No argument is private: nothing is converted."""
    reads: tuple[Format | None, ...] = (None,) * len(call.inputs)
    gives = tuple(_dense(item) for item in call.outputs)
    return Choice(reads, gives, tuple(_declared(item, None) for item in call.outputs))


def _lists(call: Call) -> Choice:
    """Lists of tensors, element by element: the tensors of one place follow that of the first list."""
    by_argument: dict[int, list[int]] = {}
    for index, item in enumerate(call.inputs):
        by_argument.setdefault(item.argument, []).append(index)
    length = max((len(indices) for indices in by_argument.values()), default=0)
    columns = [indices for indices in by_argument.values() if len(indices) == length]
    reads: list[Format | None] = [None] * len(call.inputs)
    for place in range(length):
        leader = call.inputs[columns[0][place]]
        for indices in columns[1:]:
            reads[indices[place]] = _as(call.inputs[indices[place]], leader.format, leader)
    leaders = [call.inputs[index] for index in columns[0]] if columns else []
    gives = tuple(
        leaders[i].format if i < len(leaders) and leaders[i].shape == item.shape else item.format
        for i, item in enumerate(call.outputs)
    )
    declared = tuple(_declared(item, format) for item, format in zip(call.outputs, gives, strict=True))
    return Choice(tuple(reads), gives, declared)


def _dense_rule(call: Call) -> Choice:
    return _uniform(call, None)


def _general(call: Call) -> Choice:
    """The adapters' default: computed densely, declared in the first argument's format (`index_select`)."""
    first = _first(call)
    if first is None or not _is_private(first):
        return _uniform(call, None)
    choice = _uniform(call, None)
    declared = tuple(
        _declared(item, first.format if len(item.shape) == len(first.shape) else None) for item in call.outputs
    )
    return Choice(choice.reads, choice.gives, declared)


def _concatenation(call: Call) -> Choice:
    """ConcatD reads NC1HWC0 only where every C is whole blocks; else it is dense, as is its result."""
    first = _first(call)
    if first is None or first.format is not Format.NC1HWC0:
        return _uniform(call, None)
    whole = all(len(item.shape) == 4 and item.shape[1] % BLOCK == 0 for item in call.inputs)
    return _uniform(call, first.format if whole else None)


def _clone(call: Call) -> Choice:
    """A copy keeps the format of a whole tensor and is dense for a view."""
    source = call.inputs[0]
    keeps = source.format is source.held and source.format in PRIVATE_FORMATS
    return _uniform(call, source.format if keeps else None)


def _cast(call: Call) -> Choice:
    """To another dtype in the format it has; to the host densely."""
    if any(item.is_host for item in (*call.inputs, *call.outputs)):
        return _uniform(call, None)
    return _clone(call)


def _copy(call: Call) -> Choice:
    """`copy_`: plain where both are whole and alike; else both are made dense and the target is brought back."""
    target, source = (*call.inputs, *call.inputs)[:2]
    alike = target.held is source.format and target.format is target.held and target.shape == source.shape
    reads: list[Format | None] = [None] * len(call.inputs)
    if alike:
        return Choice(tuple(reads), _held(call.outputs), _held(call.outputs))
    if len(reads) > 1 and not source.is_host:
        reads[:2] = _dense(target), _dense(source)
    gives = tuple(_dense(item) for item in call.outputs)
    return Choice(tuple(reads), gives, _held(call.outputs))


def _activation(rank: int) -> Format:
    return Format.NDC1HWC0 if rank == 5 else Format.NC1HWC0


def _filter(rank: int) -> Format:
    return Format.FRACTAL_Z_3D if rank == 5 else Format.FRACTAL_Z


def _convolution(call: Call) -> Choice:
    """Conv2D, Conv3D and their transposes: blocked activations and weights.

    The result is declared in blocks for float16 and for 3-D, and densely for float32, which is why a float32
    network is converted around every convolution and a half one is not.
    """
    source = call.inputs[0]
    rank = len(source.shape)
    reads = [_activation(rank), _filter(rank), *(None for _ in call.inputs[2:])][: len(call.inputs)]
    blocked = source.dtype == HALF or rank == 5
    declared = tuple(_declared(item, _activation(rank) if blocked else None) for item in call.outputs)
    return Choice(tuple(reads), tuple(_activation(rank) for _ in call.outputs), declared)


def _convolution_backward(call: Call) -> Choice:
    """Inputs are gradient, activations, weight; the results that are wanted are those of the mask, in order.

    Three kernels read the gradient, each for itself: that of the input (with the weight), that of the weight
    (with the activations), both in blocks, and the sum for the bias, which is dense.
    """
    source, weight = call.inputs[1:3]
    rank = len(source.shape)
    mask, groups = call.details
    wanted = [kind for kind, is_wanted in zip(("input", "weight", "bias"), mask, strict=True) if is_wanted]
    formats = {"input": _activation(rank), "weight": _activation(rank), "bias": base_of_rank(rank)}
    reads: tuple[Format | None, ...] = (
        formats[wanted[0]] if wanted else None,
        _activation(rank) if "weight" in wanted else None,
        _filter(rank) if "input" in wanted else None,
    )
    blocked = source.dtype == HALF or rank == 5
    by_kind = {
        "input": (_activation(rank), _activation(rank) if blocked else None),
        "weight": (_filter(rank), weight.format if groups == 1 else None),
        "bias": (base_of_rank(1), None),
    }
    gives = tuple(by_kind[kind][0] for kind in wanted)
    declared = tuple(_declared(item, by_kind[kind][1]) for item, kind in zip(call.outputs, wanted, strict=True))
    return Choice(reads, gives, declared, tuple((0, formats[kind]) for kind in wanted[1:]))


def _matmul(call: Call) -> Choice:
    """Matrix products: dense where sizes are whole blocks (any size from Ascend910B1 on), else FRACTAL_NZ inside."""
    matrices = [item for item in call.inputs if len(item.shape) >= 2][-2:]
    if call.mode.aclnn:
        reads = tuple(None if item.format is Format.FRACTAL_NZ else _dense(item) for item in call.inputs)
        return Choice(reads, tuple(_dense(item) for item in call.outputs), _densely(call))
    aligned = all(size % BLOCK == 0 for item in matrices for size in item.shape[-2:])
    in_blocks = not call.mode.matmul_nd and any(item.dtype == HALF for item in matrices)
    if aligned and not in_blocks and not any(_is_private(item) for item in matrices):
        return _plain(call)
    reads = tuple(Format.FRACTAL_NZ if item in matrices else None for item in call.inputs)
    declared = tuple(_declared(item, Format.FRACTAL_NZ if in_blocks else None) for item in call.outputs)
    return Choice(reads, (Format.FRACTAL_NZ,) * len(call.outputs), declared)


def _densely(call: Call) -> tuple[Format, ...]:
    return tuple(_declared(item, None) for item in call.outputs)


def _normalisation(call: Call) -> Choice:
    """Batch normalisation works in the format of its first argument; statistics and weights are read in any.

    Vectors it gives are declared like the vectors it was given.
    """
    first = call.inputs[0]
    vectors = next((item.format for item in call.inputs if len(item.shape) == 1), Format.ND)
    source = call.inputs[1] if "backward" in call.operator and len(call.inputs) > 1 else first
    reads = tuple(_as(item, first.format, first) if len(item.shape) > 1 else None for item in call.inputs)
    gives = tuple(first.format if item.shape == first.shape else vectors for item in call.outputs)
    declared = tuple(_declared(item, source.format if item.shape == first.shape else vectors) for item in call.outputs)
    return Choice(reads, gives, declared)


def _blocked(call: Call) -> Choice:
    """Pooling: the kernel has NC1HWC0 only; results are declared like the activations, positions in blocks."""
    activations = [item for item in call.inputs if len(item.shape) >= 3]
    if not activations or any(len(item.shape) > 4 for item in activations):
        return _uniform(call, None)
    own = call.inputs[1] if "backward" in call.operator and len(call.inputs) > 1 else call.inputs[0]
    reads = tuple(Format.NC1HWC0 if len(item.shape) >= 3 else None for item in call.inputs)
    gives = tuple(Format.NC1HWC0 for _ in call.outputs)
    declared = tuple(
        Format.NC1HWC0 if item.dtype.startswith("int") else _declared(item, own.format) for item in call.outputs
    )
    return Choice(reads, gives, declared)


_RULES: dict[Family, Rule] = {
    Family.CONVOLUTION: _convolution,
    Family.CONVOLUTION_BACKWARD: _convolution_backward,
    Family.MATMUL: _matmul,
    Family.BLOCKED: _blocked,
    Family.NORMALISATION: _normalisation,
    Family.FOLLOWING: _following,
    Family.LISTS: _lists,
    Family.CONCATENATION: _concatenation,
    Family.COPY: _copy,
    Family.CLONE: _clone,
    Family.CAST: _cast,
    Family.DENSE: _dense_rule,
    Family.GENERAL: _general,
}
