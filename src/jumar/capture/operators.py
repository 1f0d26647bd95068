"""What the observer knows of an operator from its schema, looked up once per operator."""

from __future__ import annotations

from typing import Any

import torch

from jumar.capture.randomness import draws

_SILENT_WRITES = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
}
"""Arguments that are written although the schema does not say so (PyTorch's `native_functions.yaml`)."""
_UNINITIALISED = {
    f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
}
_MOST_ARGUMENTS = 64
"""No operator has as many."""


class OperatorInfo:
    """Name, argument names, and what an operator writes.

    `writes` holds argument positions, `returns_writes` tells whether the written arguments are all
    returned (so that its outputs already show them), `collective` that its results arrive later,
    `is_marker` that it computes nothing (a profiler's range), `is_view` that it only makes a view, `draws`
    that it may draw random numbers, `is_uninitialised` that its result is memory nobody has written yet.
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
            self.is_view = self.is_copy = self.draws = self.is_uninitialised = False
            return
        self.name = func.name()
        self.names = tuple(argument.name for argument in schema.arguments)
        silent = _SILENT_WRITES.get(self.name, ())
        self.writes = tuple(
            position
            for position, argument in enumerate(schema.arguments)
            if argument.name in silent or (argument.alias_info is not None and argument.alias_info.is_write)
        )
        self.collective = func.namespace == "c10d"
        if self.collective:
            self.writes = tuple(range(len(schema.arguments)))
        num_returned = sum(item.alias_info is not None and item.alias_info.is_write for item in schema.returns)
        self.returns_writes = bool(silent) or self.collective or num_returned >= len(self.writes)
        self.is_marker = func.namespace == "profiler"
        self.is_view = bool(getattr(func, "is_view", False))
        self.is_copy = self.name == "aten::clone"
        self.draws = draws(func)
        self.is_uninitialised = self.name.partition(".")[0] in _UNINITIALISED and not self.writes

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the arguments of this call that the operator writes (tensors, lists of them, None)."""
        return [
            args[position] if position < len(args) else kwargs.get(self.names[position]) for position in self.writes
        ]


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


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an argument: itself, or those of a list or tuple."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []
