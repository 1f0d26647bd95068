"""`OperatorInfo`: facts about an operator from its schema, looked up once per operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch

from jumar.operators import draws, operator
from jumar.operators.traits import of_overload

_MOST_ARGUMENTS = 64
"""No operator has as many."""


class OperatorInfo:
    """Name, argument names, and what an operator writes.

    `writes` holds argument positions, `returns_writes` tells whether the written arguments are all
    returned (so that its outputs already show them), `collective` that its results arrive later,
    `is_marker` that it computes nothing (a profiler's range), `is_view` that it only makes a view, `draws`
    that it may draw random numbers, `is_uninitialised` that its result is memory nobody has written yet, `reads_later`
    that its arguments may be so, too.
    """

    __slots__ = (
        "collective",
        "draws",
        "is_copy",
        "is_marker",
        "is_uninitialised",
        "is_view",
        "name",
        "names",
        "reads_later",
        "returns_writes",
        "writes",
    )

    def __init__(self, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        if schema is None:  # a higher-order operator
            self.name = f"higher_order::{func.name() if callable(getattr(func, 'name', None)) else func}"
            self.names: tuple[str, ...] = tuple(map(str, range(_MOST_ARGUMENTS)))
            self.writes: tuple[int, ...] = ()
            self.returns_writes, self.collective, self.is_marker = True, False, False
            self.is_view = self.is_copy = self.draws = self.is_uninitialised = self.reads_later = False
            return
        self.name = func.name()
        self.names = tuple(argument.name for argument in schema.arguments)
        found = of_overload(func)
        self.collective = func.namespace == "c10d"
        self.writes = tuple(range(len(schema.arguments))) if self.collective else found.writes
        # NOTE: running statistics that the schema does not mark (`native_batch_norm`) do not count.
        self.returns_writes = self.collective or _num_written(schema.returns) >= _num_written(schema.arguments)
        self.is_marker = found.has("marker")
        self.is_view = found.has("view")
        self.is_copy = self.name == "aten::clone"
        self.draws = found.has("draws")
        # A functional collective returns at once. What waits for it or wraps its result names no group.
        is_functional = found.has("collective") and not self.collective
        self.reads_later = is_functional and not any("group" in name for name in self.names)
        self.is_uninitialised = is_functional or (found.has("uninitialised") and not self.writes)

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the arguments of this call that the operator writes (tensors, lists of them, None)."""
        return [
            args[position] if position < len(args) else kwargs.get(self.names[position]) for position in self.writes
        ]


def _num_written(items: Sequence[Any]) -> int:
    return sum(item.alias_info is not None and item.alias_info.is_write for item in items)


_known: dict[int, OperatorInfo] = {}
"""By identity: overloads live as long as the process, and hashing one runs Python code."""
_kept: list[Any] = []


def operator_info(func: Any) -> OperatorInfo:
    """Return what is known of `func`, an `OpOverload` or a higher-order operator."""
    info = _known.get(id(func))
    if info is None:
        info = _known[id(func)] = OperatorInfo(func)
        _kept.append(func)
    return info


def draws_with(name: str, arguments: Sequence[Any] | str | None) -> bool:
    """Return whether a call of an operator that may draw does so; `arguments` are names and values, in turn."""
    if not operator(name).known:
        return True
    if isinstance(arguments, str):
        return draws(name, json.loads(arguments or "{}"))
    given = arguments or ()
    return draws(name, dict(zip(given[::2], given[1::2], strict=True)))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an argument: itself, or those of a list or tuple."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []
