"""An ONNX graph being written: nodes, initialisers, names, and the types of what they name.

`TABLE` holds the operators that are written as ONNX; the modules beside this one fill it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from onnx import NodeProto, TensorProto, helper

from jumar.tune.model.errors import TuneError

Converter = Callable[..., "str | list[str]"]
"""Called with the draft and the operator's arguments by their names in its schema, tensors as `Value`s.

Returns the names of the outputs. What a converter gives need not have the right dtype: it is cast. Raises TuneError
for arguments that it cannot write.
"""

TABLE: dict[str, Converter] = {}
"""By base name (`add`), or name with overload (`max.dim`), which goes first."""


def operator(*names: str) -> Callable[[Converter], Converter]:
    """Enter a converter into the table."""

    def enter(converter: Converter) -> Converter:
        for name in names:
            TABLE[name] = converter
        return converter

    return enter


def converter_of(name: str) -> Converter | None:
    """Return the converter of `aten::add.Tensor`; None when there is none."""
    namespace, _, rest = name.rpartition("::")
    if namespace not in {"", "aten"}:
        return None
    return TABLE.get(rest) or TABLE.get(rest.partition(".")[0])


def unary(kind: str, **attributes: Any) -> Converter:
    """Return a converter for one ONNX operator of one floating-point input."""

    def convert(draft: Any, self: Any) -> str:
        name: str = draft.add(kind, draft.cast(self, draft.out[0].dtype), **attributes)
        return name

    return convert


DTYPES: dict[torch.dtype, int] = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.float16: TensorProto.FLOAT16,
    torch.bfloat16: TensorProto.BFLOAT16,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.int16: TensorProto.INT16,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
    torch.bool: TensorProto.BOOL,
}
"""Types of ONNX for those of PyTorch."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph: its name in the model, and what is known of it."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    known: torch.Tensor | None = None
    """Its values, where they do not depend on the graph's variable inputs."""

    @property
    def rank(self) -> int:
        """Return how many dimensions it has."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Tell whether it holds floating-point numbers."""
        return self.dtype.is_floating_point


class Draft:
    """Collects nodes and initialisers. `out` is what the operator being written must give: its shapes and dtypes."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.initialisers: dict[str, torch.Tensor] = {}
        self.out: list[Value] = []
        self._number = 0

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Write a node and return the name of its first output. An empty name is an input left out."""
        return self.several(kind, *inputs, outputs=outputs, **attributes)[0]

    def several(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Write a node and return the names of its outputs."""
        names = [self._name() for _ in range(outputs)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **given))
        return names

    def constant(self, values: torch.Tensor) -> str:
        """Return the name of an initialiser with these values. Raises TuneError for a dtype that ONNX has not."""
        dtype_of(values.dtype)
        name = self._name()
        self.initialisers[name] = (
            values if values.is_contiguous() else values.contiguous()
        )  # itself: it may be borrowed
        return name

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of a one-dimensional int64 initialiser: shapes, axes, pads."""
        return self.constant(torch.tensor(list(values), dtype=torch.int64))

    def number(self, value: float | bool, dtype: torch.dtype) -> str:
        """Return the name of a 0-dimensional initialiser."""
        return self.constant(torch.tensor(value, dtype=dtype))

    def cast(self, value: Value, dtype: torch.dtype) -> str:
        """Return the value's name in another dtype; the same name when it has it already."""
        return value.name if value.dtype == dtype else self.convert(value.name, dtype)

    def convert(self, name: str, dtype: torch.dtype) -> str:
        """Return what has this name in another dtype."""
        return self.add("Cast", name, to=dtype_of(dtype))

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return a tensor of as many elements in another shape, of which none may be 0."""
        return self.add("Reshape", name, self.integers(shape))

    def permute(self, name: str, order: Sequence[int]) -> str:
        """Return a tensor with its dimensions in another order."""
        return name if list(order) == list(range(len(order))) else self.add("Transpose", name, perm=list(order))

    def slice(self, name: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """Return the part of a tensor along one axis."""
        return self.add("Slice", name, *(self.integers([number]) for number in (start, end, axis, step)))

    def _name(self) -> str:
        self._number += 1
        return f"v{self._number}"


def dtype_of(dtype: torch.dtype) -> int:
    """Return ONNX's number of a dtype. Raises TuneError when it has none."""
    if dtype not in DTYPES:
        raise TuneError(f"ONNX has no {str(dtype).removeprefix('torch.')}; leave this graph to PyTorch's own engines.")
    return DTYPES[dtype]


def refuse(why: str) -> TuneError:
    """Return the error that says what of an operator is not written as ONNX."""
    return TuneError(f"{why}, which is not written as ONNX; leave this part to PyTorch's own engines.")


def axis_of(dim: int, rank: int) -> int:
    """Return a dimension counted from the front."""
    return dim + max(rank, 1) if dim < 0 else dim


def axes_of(dims: Any, rank: int) -> list[int]:
    """Return dimensions counted from the front; all of them for None or an empty list."""
    if isinstance(dims, int):
        dims = [dims]
    return sorted(axis_of(dim, rank) for dim in dims) if dims else list(range(rank))


def listed(value: Any, count: int) -> list[int]:
    """Return `[3, 3]` for 3 or `[3]` where two numbers are meant."""
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(item) for item in (found * count if len(found) == 1 else found)]
