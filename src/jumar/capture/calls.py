"""What the observer notes while the run goes on, and how it becomes rows afterwards.

Notes are kept light: the run waits while they are taken, and does not wait while a step's notes
become rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from jumar.recording import Kind, Phase, TensorRow

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
        "hash",
        "memory",
        "shape",
        "sketch",
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
        self.sketch: bytes | None = None
        self.hash = ""
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

    def to_row(self) -> TensorRow:
        """Return the row of this tensor, without a name."""
        minimum, maximum, mean, l2, num_nan, num_inf = self.statistics or (None,) * 6
        return TensorRow(
            name="",
            shape=tuple(self.shape),
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            stride=self.stride,
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
            sketch=self.sketch,
            hash=self.hash,
        )


Named = list[Any]
"""Names and `Seen`s in turn: one flat list, because a pair a tensor would keep the garbage collector busy."""


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
        "rng",
        "source",
        "start_us",
        "wanted",
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
        """Names and values, in turn, of the arguments that are not tensors, or None."""
        self.autocast = ""
        self.rng = ""
        self.wanted = False
        """Whether the whole tensors of this row were asked for by its key."""
        self.start_us = 0.0
        self.duration_us = 0.0
        self.inputs: Named = []
        self.outputs: Named = []


def arguments_text(arguments: Sequence[Any] | None) -> str:
    """Return names and values as a JSON object, empty for none; what JSON has no form for becomes text (`float16`)."""
    if not arguments:
        return ""
    names = iter(arguments)
    return json.dumps({name: _plain(value) for name, value in zip(names, names, strict=True)}, default=str)


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
