"""`Case`: one recorded operator, or a chain that ends in it, with everything that its script needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from jumar.comparison.replay.rebuilt.execute import Inputs
from jumar.comparison.replay.rebuilt.memory import Array
from jumar.comparison.replay.rebuilt.place import Precision
from jumar.comparison.replay.results import OwnError
from jumar.recording import CallRow, RunInfo, TensorRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a tensor of a later step of a chain comes from: the output `output` of step `step`."""

    step: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operator of a case; `links` names the inputs that earlier steps make."""

    inputs: Inputs
    links: Mapping[str, Link]

    @property
    def row(self) -> CallRow:
        """The recorded row."""
        return self.inputs.row

    @property
    def loaded(self) -> list[TensorRow]:
        """Tensors that come from the file."""
        return [tensor for tensor in self.inputs.invocation.tensors if tensor.name not in self.links]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The operators of a case in order; the last is the one it is about."""

    info: RunInfo
    steps: tuple[Step, ...]
    own: OwnError
    """Error of the recorded outputs of the last step, with the tolerances that the script keeps to."""
    natural: Mapping[str, float]
    """By output: the L2 norm it would have if no terms cancelled."""
    precision: Precision
    """Dtype of the truth: `float64`, or what the operator has a kernel for."""
    exact: Mapping[str, Array] | None = None
    """The exact outputs, where a CPU cannot compute them without Jumar (the vendor's operators)."""
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> Step:
        """The operator that the case is about."""
        return self.steps[-1]

    @property
    def row(self) -> CallRow:
        """Its row."""
        return self.last.row

    @property
    def outputs(self) -> list[TensorRow]:
        """Recorded outputs that the script compares."""
        judged = {output.name for output in self.own.outputs}
        return [tensor for tensor in self.row.outputs if tensor.name in judged]

    def size_bytes(self) -> int:
        """Return the bytes of the tensors the script needs."""
        total = 0
        for step in self.steps:
            total += sum(nbytes(tensor) for tensor in step.loaded)
        return total + sum(nbytes(tensor) for tensor in self.outputs)

    def noted(self, text: str) -> Case:
        """Return the case with one more note."""
        return replace(self, notes=(*self.notes, text))


def nbytes(tensor: TensorRow) -> int:
    """Return the bytes of a tensor's elements in the file."""
    item = _ITEM.get(tensor.dtype)
    return int(np.prod(tensor.shape, dtype=np.int64)) * (item or np.dtype(tensor.dtype).itemsize)


_ITEM = {
    "bfloat16": 2,
    "complex32": 4,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}
"""Bytes of an element of what NumPy has no dtype for."""
