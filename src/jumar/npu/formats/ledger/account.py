"""Work out the formats of an operator call: its signature, its conversions, the formats of its results."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from jumar.npu.core.events import OperatorEvent
from jumar.npu.core.state import STATE
from jumar.npu.formats import cast
from jumar.npu.formats import mode as modes
from jumar.npu.formats.cast import CAST_FROM, IN_PLACE
from jumar.npu.formats.families import Family, family_of
from jumar.npu.formats.ledger.operands import inputs_of, outputs_of
from jumar.npu.formats.names import PRIVATE_FORMATS, Format, base_of_rank
from jumar.npu.formats.rules import Call, Mode, Operand, choose
from jumar.npu.formats.shapes import storage_bytes
from jumar.npu.formats.state import Layout, dense_format, fills, give, layout_of, usable_format

Tensor = torch.Tensor
Signature = tuple[Any, ...]

_PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.memory_format})


def signature_of(event: OperatorEvent) -> Signature:
    """Return the signature of a call."""
    args = tuple([_part(value) for value in event.args])
    named = tuple([(name, _part(value)) for name, value in event.kwargs.items()]) if event.kwargs else ()
    result = event.result
    written = _place(event, result) if type(result) is Tensor else _part_of_results(event, result)
    before = cast.CAST_FROM.format if event.operator == cast.IN_PLACE else None
    return (event.operator, args, named, written, before)


def _part(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value if kind is not float else repr(value)
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, (list, tuple)):
        return tuple([_part(item) for item in value])
    return str(value) if isinstance(value, (int, float, complex)) else kind.__name__


def _tensor(tensor: Tensor) -> Any:
    if tensor.is_cpu:
        return (tensor.shape, tensor.dtype, None)
    layout: Layout | None = layout_of(tensor)
    if layout is None:
        return (tensor.shape, tensor.dtype)
    if fills(tensor, layout):
        return (tensor.shape, tensor.dtype, layout)
    return (tensor.shape, tensor.dtype, layout, usable_format(tensor), usable_format(tensor, transposable=True))


def _place(event: OperatorEvent, result: Tensor) -> Any:
    """Return which argument a result is, or what it is where it is new."""
    for index, value in enumerate(event.args):
        if value is result:
            return index
    return _tensor(result)


def _part_of_results(event: OperatorEvent, result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return tuple([_place(event, item) if isinstance(item, Tensor) else None for item in result])
    return _part(result) if isinstance(result, Tensor) else None


@dataclass(frozen=True, slots=True)
class TransData:
    """One conversion between formats that the framework inserts before or after an operator."""

    source_format: str
    target_format: str
    shape: tuple[int, ...]
    """Of the tensor, without padding."""
    dtype: str
    """`float16`."""
    size_bytes: int
    """What the conversion reads and writes together, padding included."""
    argument: int
    """Position of the argument it is for, or -1-i for result i."""


class Outcome(NamedTuple):
    """What one call did about formats."""

    made: tuple[tuple[int, Layout, int], ...]
    """New results in private formats: place among the results, what their memory holds, its bytes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    transdata: tuple[TransData, ...]
    declared: tuple[Format, ...]
    """Of the results; those written in place keep what they had."""


def switches() -> Mode:
    """Return the switches as they are now."""
    options = STATE.options
    return _mode(
        STATE.settings.soc,
        options.get(modes.JIT_COMPILE),
        options.get(modes.INTERNAL_FORMAT),
        options.get(modes.MATMUL_ND),
    )


@functools.lru_cache(maxsize=256)
def _mode(*_: Any) -> Mode:
    """Make the switches of a chip and its options: the arguments say when they have changed."""
    return Mode(
        online=modes.is_online(),
        private=modes.allows_internal(),
        matmul_nd=modes.keeps_matmul_dense(),
        aclnn=STATE.profile.is_aclnn_default,
    )


def call_of(event: OperatorEvent) -> Call:
    """Return the call as far as formats go."""
    family = family_of(event.operator)
    tensors = inputs_of(event)
    inputs = tuple(_operand(position, tensor, family is Family.MATMUL) for position, tensor in tensors)
    place = {id(tensor): index for index, (_, tensor) in enumerate(tensors)}
    outputs = tuple(
        _operand(position, tensor)._replace(writes=place.get(id(tensor))) for position, tensor in outputs_of(event)
    )
    return Call(event.operator, inputs, outputs, _details(family, event), switches())


def _details(family: Family, event: OperatorEvent) -> tuple[Any, ...]:
    if family is Family.CONVOLUTION_BACKWARD:
        mask, groups = event.args[10], event.args[9]
        return (tuple(mask), groups)
    return (CAST_FROM.format,) if event.operator == IN_PLACE else ()


def _operand(position: int, tensor: torch.Tensor, transposable: bool = False) -> Operand:
    shape, dtype = tuple(tensor.shape), tensor.dtype
    layout = None if tensor.is_cpu else layout_of(tensor)
    usable = base_of_rank(len(shape)) if layout is None else usable_format(tensor, transposable)
    held, held_shape = (usable, shape) if layout is None else layout
    name = str(dtype).removeprefix("torch.")
    return Operand(position, shape, name, dtype.itemsize, usable, held, held_shape, is_host=tensor.is_cpu)


def outcome_of(call: Call) -> Outcome:
    """Return what this call does about formats."""
    choice = choose(call)
    found: list[TransData] = []
    untouched = family_of(call.operator) is Family.UNTOUCHED
    if not untouched:
        for item, wanted in zip(call.inputs, choice.reads, strict=True):
            found.extend(_before(item, wanted))
        for index, wanted in choice.more:
            found.extend(_before(call.inputs[index], wanted))
        for item, given, declared in zip(call.outputs, choice.gives, choice.declared, strict=True):
            found.extend(_after(item, given, declared))
    elif "npu_format_cast" in call.operator:
        found.extend(_asked_for(call))
    before, after = (tuple(map(str, items)) for items in (_formats(call), choice.declared))
    made = tuple(
        (index, Layout(format, item.shape), storage_bytes(item.shape, format, item.itemsize))
        for index, (item, format) in enumerate(zip(call.outputs, choice.declared, strict=True))
        if not untouched and item.writes is None and not item.is_host and format in PRIVATE_FORMATS
    )
    return Outcome(made, before, after, tuple(found), choice.declared)


def _formats(call: Call) -> list[Format]:
    return [item.held for item in call.inputs]


def _asked_for(call: Call) -> list[TransData]:
    """Return the conversion that a program asked for with a format cast."""
    result = call.outputs[0]
    source = call.details[0] if call.details else call.inputs[0].held
    if source is result.held or not {source, result.held} & PRIVATE_FORMATS:
        return []
    return [_transdata(result, source, result.held, result.held_shape)]


def _before(item: Operand, wanted: Format | None) -> list[TransData]:
    """Return the conversions an argument needs: a view first to the dense format, then to what the kernel reads."""
    found = []
    if item.held in PRIVATE_FORMATS and item.format is not item.held:
        dense = dense_format(item.held, len(item.held_shape))
        found.append(_transdata(item, item.held, dense, item.held_shape))
    if (
        wanted is not None
        and wanted is not item.format
        and (wanted in PRIVATE_FORMATS or item.format in PRIVATE_FORMATS)
    ):
        found.append(_transdata(item, item.format, wanted, item.shape))
    return found


def _after(item: Operand, given: Format, declared: Format) -> list[TransData]:
    """Return the conversion of a result; a view that was written brings its whole memory there and back."""
    if item.writes is not None and item.held in PRIVATE_FORMATS and item.format is not item.held:
        dense = dense_format(item.held, len(item.held_shape))
        return [
            _transdata(item, item.held, dense, item.held_shape),
            _transdata(item, dense, item.held, item.held_shape),
        ]
    if given is declared or not (given in PRIVATE_FORMATS or declared in PRIVATE_FORMATS):
        return []
    return [_transdata(item, given, declared, item.shape)]


def _transdata(item: Operand, source: Format, target: Format, shape: tuple[int, ...]) -> TransData:
    size = storage_bytes(shape, source, item.itemsize) + storage_bytes(shape, target, item.itemsize)
    return TransData(str(source), str(target), shape, item.dtype, size, item.argument)


def apply(outcome: Outcome, event: OperatorEvent) -> None:
    """Give the new results their formats. Raises torch.OutOfMemoryError where their padding does not fit."""
    results = [tensor for _, tensor in outputs_of(event)]
    for index, layout, size_bytes in outcome.made:
        give(results[index], layout, size_bytes)
