"""What the observer notes while the run goes on, and how it becomes rows afterwards.

Notes are kept light: the run waits while they are taken, and does not wait while a step's notes
become rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from jumar.recording import CallRow, Kind, Phase, TensorRow

if TYPE_CHECKING:
    import numpy as np

Statistics = tuple[float | None, float | None, float | None, float | None, int, int]
"""Minimum, maximum, mean, L2 norm (None without a finite element), number of NaN, number of Inf."""


class Seen:
    """One tensor as it was at one moment; shared by the rows that saw it unchanged."""

    __slots__ = (
        "array",
        "contiguous",
        "device",
        "dtype",
        "format",
        "memory",
        "shape",
        "statistics",
        "storage",
        "storage_offset",
        "stride",
    )

    def __init__(self, tensor: torch.Tensor, storage: int) -> None:
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.storage = storage
        self.format = "ND"
        self.statistics: Statistics | None = None
        self.array: np.ndarray | None = None
        self.memory: Any = None
        """Identity of the memory and its state when it has no gaps: views with the same have the same statistics."""
        if tensor.layout is torch.strided:
            self.stride: tuple[int, ...] = tensor.stride()
            self.storage_offset = int(tensor.storage_offset())
            self.contiguous = tensor.is_contiguous()
        else:
            self.stride, self.storage_offset, self.contiguous = (), 0, False
            self.format = str(tensor.layout).removeprefix("torch.").upper()

    def to_row(self, name: str) -> TensorRow:
        """Return the row of this tensor under `name`."""
        minimum, maximum, mean, l2, num_nan, num_inf = self.statistics or (None,) * 6
        return TensorRow(
            name=name,
            shape=tuple(self.shape),
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            stride=tuple(self.stride),
            storage_offset=self.storage_offset,
            contiguous=self.contiguous,
            format=self.format,
            storage=self.storage,
            minimum=minimum,
            maximum=maximum,
            mean=mean,
            l2=l2,
            num_nan=num_nan,
            num_inf=num_inf,
        )


Named = list[tuple[str, Seen]]


class Call:
    """One call while it is under way, then one row."""

    __slots__ = (
        "arguments",
        "autocast",
        "duration_us",
        "inputs",
        "kind",
        "module_path",
        "module_type",
        "name",
        "occurrence",
        "outputs",
        "phase",
        "source",
        "start_us",
    )

    def __init__(self, kind: Kind, phase: Phase, module_path: str, module_type: str, name: str) -> None:
        self.kind: Kind = kind
        self.phase: Phase = phase
        self.module_path = module_path
        self.module_type = module_type
        self.name = name
        self.occurrence = 0
        self.source = ""
        self.arguments: Any = None
        """Names and values of the arguments that are not tensors, or None."""
        self.autocast = ""
        self.start_us = 0.0
        self.duration_us = 0.0
        self.inputs: Named = []
        self.outputs: Named = []

    def to_row(self, step: int, rank: int, seq: int) -> CallRow:
        """Return the row of this call at position `seq` of its step."""
        return CallRow(
            step=step,
            rank=rank,
            seq=seq,
            kind=self.kind,
            phase=self.phase,
            module_path=self.module_path,
            module_type=self.module_type,
            name=self.name,
            occurrence=self.occurrence,
            source=self.source,
            arguments=arguments_text(self.arguments) if self.arguments else "",
            autocast=self.autocast,
            start_us=self.start_us,
            duration_us=self.duration_us,
            inputs=tuple(seen.to_row(name) for name, seen in self.inputs),
            outputs=tuple(seen.to_row(name) for name, seen in self.outputs),
        )


def arguments_text(arguments: Sequence[tuple[str, Any]]) -> str:
    """Return the arguments as a JSON object; values JSON has no form for become text (`torch.float16`)."""
    return json.dumps({name: _plain(value) for name, value in arguments}, default=str)


def _plain(value: Any) -> Any:
    """Replace what JSON would write differently on another run or device."""
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, complex):
        return str(value)
    return type(value).__name__  # a generator, a process group: its address would differ every run


def to_rows(calls: Sequence[Call], step: int, rank: int) -> list[CallRow]:
    """Return the rows of a step, in the order in which the calls finished."""
    return [call.to_row(step, rank, seq) for seq, call in enumerate(calls)]


def arrays_of(calls: Sequence[Call], rows: Sequence[CallRow]) -> dict[str, dict[str, np.ndarray]]:
    """Return the whole tensors of a step by row key and tensor name."""
    arrays = {}
    for call, row in zip(calls, rows, strict=True):
        of_row = {name: seen.array for name, seen in (*call.inputs, *call.outputs) if seen.array is not None}
        if of_row:
            arrays[row.key] = of_row
    return arrays
