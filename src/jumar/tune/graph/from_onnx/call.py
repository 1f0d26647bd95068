"""One node of an ONNX graph while it is computed, and the table of who computes it.

Values are tensors, or NumPy arrays where they are known beforehand (shapes and what is computed from them), so that
PyTorch sees plain integers where it needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jumar.tune.model.errors import TuneError

Value = torch.Tensor | np.ndarray | None


@dataclass(frozen=True, slots=True)
class Call:
    """A node with its inputs."""

    operator: str
    name: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Value]
    held: Sequence[torch.Tensor | None]
    """For inputs that are weights, the tensors that the module holds."""
    opset: int
    num_outputs: int

    def has(self, place: int) -> bool:
        """Tell whether an optional input is there; large weights are among those that are held only."""
        return any(place < len(given) and given[place] is not None for given in (self.inputs, self.held))

    def tensor(self, place: int) -> torch.Tensor:
        """Return an input as a tensor. Raises TuneError when it is not there."""
        value = self.inputs[place] if place < len(self.inputs) else None
        held = self.held[place] if place < len(self.held) else None
        if held is not None:
            return held
        if value is None:
            raise TuneError(f"{self} lacks input {place}; the model is damaged.")
        return as_tensor(value)

    def optional(self, place: int) -> torch.Tensor | None:
        """Return an optional input as a tensor."""
        return self.tensor(place) if self.has(place) else None

    def known(self, place: int) -> np.ndarray:
        """Return an input that must be known beforehand. Raises TuneError for one that the model computes."""
        value = self.inputs[place] if place < len(self.inputs) else None
        if not isinstance(value, np.ndarray):
            raise TuneError(
                f"{self} takes a shape or setting (input {place}) that depends on the values of the model's inputs; "
                "its shapes must be static."
            )
        return value

    def ints(self, place: int) -> list[int]:
        """Return a known input as integers."""
        return [int(value) for value in self.known(place).reshape(-1)]

    def number(self, place: int) -> float:
        """Return a known input of one element."""
        return float(self.known(place).reshape(-1)[0])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def ints_of(self, name: str, place: int) -> list[int] | None:
        """Return integers that are an attribute in older operator sets and an input in newer ones; None: neither."""
        if name in self.attributes:
            return [int(value) for value in self.attributes[name]]
        return self.ints(place) if self.has(place) else None

    def __str__(self) -> str:
        return f"{self.operator} ({self.name})" if self.name else self.operator


Handler = Callable[[Call], "Value | tuple[Value, ...]"]
HANDLERS: dict[str, Handler] = {}
_BY_BITS = ("bfloat16", "float8_")
"""What dtypes begin with that NumPy has through an extension only, which PyTorch does not read."""
_UNDER_A_BYTE = frozenset({"int4", "uint4", "int2", "uint2"})
"""Dtypes that PyTorch has by name and computes nothing in."""


def computes(*names: str) -> Callable[[Handler], Handler]:
    """Register who computes operators of these names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def as_tensor(value: torch.Tensor | np.ndarray) -> torch.Tensor:
    """Return a value as a tensor. Raises TuneError for a dtype that PyTorch does not have."""
    if isinstance(value, torch.Tensor):
        return value
    name = value.dtype.name
    kind = _dtype(name, name)
    value = value if value.flags.c_contiguous else value.copy()  # PyTorch takes no reversed ones
    if not name.startswith(_BY_BITS):
        return torch.tensor(value)
    return torch.tensor(value.view(f"i{value.dtype.itemsize}")).view(kind)


def dtype_of(code: int) -> torch.dtype:
    """Return PyTorch's dtype of an ONNX one. Raises TuneError for one that PyTorch does not have."""
    from onnx import TensorProto, helper

    if code == TensorProto.BFLOAT16:
        return torch.bfloat16
    return _dtype(np.dtype(helper.tensor_dtype_to_np_dtype(code)).name, TensorProto.DataType.Name(code))


def _dtype(name: str, shown: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or name in _UNDER_A_BYTE:
        raise TuneError(f"the model has a tensor of {shown}, which PyTorch does not have.")
    return found
