"""What is tuned and what is chosen for it: `Task`, one distinct operator call, and `Policy`.

A task does not say where in the model the call happens. Policies are of three kinds and stack.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jumar.base.findings import Json

if TYPE_CHECKING:
    from jumar.recording import TensorRow

PolicyKind = Literal["Subgraph", "Format", "Impl", "Schedule"]
KINDS: tuple[PolicyKind, ...] = ("Subgraph", "Format", "Impl", "Schedule")
"""For a graph its plan; for an operator the vendor's three kinds, in the order in which they wrap it: the layout of
its tensors innermost, then who computes it, then with how many threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One choice of one kind, made by one provider."""

    kind: PolicyKind
    provider: str
    settings: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """Rebuild a policy from `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
        return cls(kind=kind_of(data["kind"]), provider=data["provider"], settings=dict(data["settings"]))

    def to_json(self) -> dict[str, Json]:
        """Return the policy as JSON values."""
        return {"kind": self.kind, "provider": self.provider, "settings": dict(self.settings)}

    def __str__(self) -> str:
        """`channels_last`, `threads num_threads=1`."""
        return " ".join([self.provider, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])


def kind_of(name: str) -> PolicyKind:
    """Return the kind of that name. Raises ValueError when there is none."""
    for kind in KINDS:
        if kind == name:
            return kind
    raise ValueError(f"the kind of a policy must be one of {', '.join(KINDS)}; got {name}")


Stack = tuple[Policy, ...]
"""At most one policy a kind, in the order of `KINDS`; empty: the operator as PyTorch runs it by default."""


def replace_in(stack: Stack, policy: Policy) -> Stack:
    """Return `stack` with `policy` in the place of its kind."""
    others = [other for other in stack if other.kind != policy.kind]
    return in_order([*others, policy])


def in_order(policies: Iterable[Policy]) -> Stack:
    """Return the policies in the order in which they are applied."""
    return tuple(sorted(policies, key=lambda policy: KINDS.index(policy.kind)))


def stack_to_json(stack: Stack) -> list[Json]:
    """Return a stack as JSON values."""
    return [policy.to_json() for policy in stack]


def stack_from_json(data: Iterable[Mapping[str, Any]]) -> Stack:
    """Rebuild a stack from `stack_to_json`."""
    return in_order(Policy.from_json(item) for item in data)


def describe(stack: Stack) -> str:
    """Return the stack in words: `channels_last + inductor`, `default`."""
    return " + ".join(map(str, stack)) or "default"


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
