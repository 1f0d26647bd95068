"""A tuning task: one distinct operator call, apart from where in the model it happens.

Two calls are the same task when operator, argument values, shapes, dtypes and strides are equal. The
statistics of the recorded tensors scale the random inputs and are no part of the identity.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jumar.base.findings import Json
from jumar.recording import TensorRow

Function = Callable[..., Any]
"""A task as a function of its tensors, in the order of `Task.tensors`; returns a tensor or a tuple of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One tensor argument: what the key needs, and the scale of its values."""

    shape: tuple[int, ...]
    dtype: str
    """Without the `torch.` prefix."""
    stride: tuple[int, ...]
    mean: float | None = field(default=None, compare=False)
    rms: float | None = field(default=None, compare=False)
    """Root of the mean square; with `mean` it gives the spread of the random inputs."""
    minimum: float | None = field(default=None, compare=False)
    maximum: float | None = field(default=None, compare=False)
    constant: bool = False
    """A weight: the same values in every call, so that it may be packed once."""

    @classmethod
    def of(cls, row: TensorRow) -> TensorSpec:
        """Return the spec of a recorded tensor."""
        count = math.prod(row.shape)
        return cls(
            shape=tuple(row.shape),
            dtype=row.dtype,
            stride=tuple(row.stride),
            mean=row.mean,
            rms=None if row.l2 is None or not count else row.l2 / math.sqrt(count),
            minimum=row.minimum,
            maximum=row.maximum,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TensorSpec:
        """Rebuild a spec from `to_json`."""
        return cls(**{**data, "shape": tuple(data["shape"]), "stride": tuple(data["stride"])})

    def identity(self) -> dict[str, Json]:
        """Return what is part of the key."""
        spec: dict[str, Json] = {"shape": list(self.shape), "dtype": self.dtype, "stride": list(self.stride)}
        return spec | {"constant": True} if self.constant else spec

    def to_json(self) -> dict[str, Json]:
        """Return every field as JSON values."""
        scale: dict[str, Json] = {name: getattr(self, name) for name in ("mean", "rms", "minimum", "maximum")}
        return self.identity() | scale

    def __str__(self) -> str:
        """`float32 8×3×32×32`, with the strides when it is not contiguous."""
        text = f"{self.dtype} {'×'.join(map(str, self.shape)) or 'scalar'}"
        return text if self.stride == contiguous_stride(self.shape) else f"{text} stride {list(self.stride)}"


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous tensor of this shape."""
    stride, size = [], 1
    for dimension in reversed(shape):
        stride.append(size)
        size *= max(dimension, 1)
    return tuple(reversed(stride))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One distinct operator call. Tensors and arguments are by the names of the operator's schema."""

    operator: str
    """Aten overload, e.g. `aten::convolution`."""
    tensors: Mapping[str, TensorSpec]
    """In the order of the schema; absent optional tensors are in `arguments` as null."""
    arguments: Mapping[str, Json]
    """Every other argument, defaults filled in."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """Rebuild a task from `to_json`. Raises KeyError or TypeError on foreign input."""
        tensors = {name: TensorSpec.from_json(spec) for name, spec in data["tensors"].items()}
        return cls(operator=data["operator"], tensors=tensors, arguments=data["arguments"])

    @property
    def base(self) -> str:
        """The operator without namespace and overload: `add` of `aten::add.Tensor`."""
        return self.operator.rpartition("::")[2].partition(".")[0]

    @property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of `identity`, in hexadecimal."""
        return digest(self.identity())

    def identity(self) -> dict[str, Json]:
        """Return what makes this task another than its neighbours."""
        tensors: dict[str, Json] = {name: spec.identity() for name, spec in self.tensors.items()}
        return {"operator": self.operator, "tensors": tensors, "arguments": dict(self.arguments)}

    def to_json(self) -> dict[str, Json]:
        """Return the identity with the scale of the values."""
        tensors: dict[str, Json] = {name: spec.to_json() for name, spec in self.tensors.items()}
        return self.identity() | {"tensors": tensors}

    def __str__(self) -> str:
        """`aten::mm(float32 8×16, float32 16×32)`."""
        return f"{self.operator}({', '.join(map(str, self.tensors.values()))})"


def digest(value: Json) -> str:
    """Return the SHA-256 of a JSON value's canonical text (sorted keys, no spaces), in hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
