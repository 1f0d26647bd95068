"""A call in short: equal for calls that do the same about formats and compilation.

The ledger looks every operator up by it, so it is made with as few steps as can be; what it stands for is
worked out once.
"""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator.events import OperatorEvent
from jumar.device.emulator.formats import cast
from jumar.device.emulator.formats.state import Layout, fills, layout_of, usable_format

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
