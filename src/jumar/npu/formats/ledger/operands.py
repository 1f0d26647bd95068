"""The tensors of an operator call, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from jumar.npu.core.events import OperatorEvent
from jumar.npu.core.plans import PLANS


class Operand(NamedTuple):
    """A tensor of a call. `argument` is the position in the schema, or -1-i for result i."""

    argument: int
    tensor: torch.Tensor


def inputs_of(event: OperatorEvent) -> list[Operand]:
    """Return the tensor arguments in order; the tensors of a list share its position."""
    found = [item for position, value in enumerate(event.args) for item in _within(position, value)]
    if event.kwargs:
        plan = PLANS.get(event.operator)
        names = plan.names if plan is not None else ()
        for extra, (name, value) in enumerate(event.kwargs.items()):
            position = names.index(name) if name in names else len(event.args) + extra
            found.extend(_within(position, value))
    return found


def outputs_of(event: OperatorEvent) -> list[Operand]:
    """Return the tensor results in order."""
    result = event.result
    if isinstance(result, torch.Tensor):
        return [Operand(-1, result)]
    if not isinstance(result, (list, tuple)):
        return []
    return [item for index, value in enumerate(result) for item in _within(-1 - index, value)]


def _within(position: int, value: Any) -> Iterator[Operand]:
    if isinstance(value, torch.Tensor):
        yield Operand(position, value)
    elif isinstance(value, (list, tuple)):
        yield from (Operand(position, item) for item in value if isinstance(item, torch.Tensor))
