"""`NpuOperator`: an operator of another library, which its distribution offers to the emulated NPU.

An entry point of the group `jumar.npu_operators` names one. The emulated NPU registers it when it comes up. On a real
NPU nothing is registered: the library that has the operator brings its own kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jumar.base.plugins import Group, instance_of
from jumar.npu.ops.mechanism.implement import Implementation
from jumar.npu.ops.mechanism.registration import register_one
from jumar.npu.ops.mechanism.schemas import NAMESPACE, Schema

_SCHEMA = re.compile(r"(?P<namespace>[A-Za-z_]\w*)::(?P<text>(?P<name>[A-Za-z_]\w*(?:\.\w+)?)\(.*\) -> .+)")
_CLOSED = frozenset({"aten", "prim", "prims", NAMESPACE})
"""Libraries to which other distributions add nothing: PyTorch's and the vendor's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuOperator:
    """One operator overload. Raises ValueError for a schema that cannot be read or is of a library that is closed."""

    schema: str
    """`acme::scaled_relu(Tensor self, float scale=1.0) -> Tensor`, as `torch.library.define` takes it."""
    function: Callable[..., Any]
    """Computes the result from CPU tensors and, unless there is a `meta`, its shape from meta tensors.

    It is given all arguments of the schema in their order, those behind `*` by keyword. It makes new tensors on the
    device of its arguments. It consists of differentiable operators where `differentiable` is set."""
    differentiable: bool = True
    """Whether gradients flow: the backward runs `function` again under autograd, on the CPU."""
    outputs: tuple[int, ...] | None = None
    """Positions of the results that a gradient flows through; None for all of a floating dtype."""
    meta: Callable[..., Any] | None = None
    """Returns empty meta tensors of the results' shapes and dtypes, where `function` cannot run on meta tensors."""

    def __post_init__(self) -> None:
        match = _SCHEMA.fullmatch(self.schema)
        if match is None:
            raise ValueError(f"a schema must look like acme::relu(Tensor self) -> Tensor; got {self.schema!r}")
        if match["namespace"] in _CLOSED:
            raise ValueError(f"the library {match['namespace']} takes no operators of others; use one of your own")

    @property
    def name(self) -> str:
        """The qualified name with its overload, `acme::scaled_relu`."""
        return self.schema.partition("(")[0]

    @property
    def implementation(self) -> Implementation:
        """What the emulated NPU registers."""
        namespace, _, text = self.schema.partition("::")
        schema = Schema(text.partition("(")[0], text, namespace)
        return Implementation(
            schema=schema,
            function=self.function,
            differentiable=self.differentiable and not schema.written,
            outputs=self.outputs,
            meta=self.meta,
            backward=f"{schema.base}_backward",
        )


INSTALLED: Group[NpuOperator] = Group("npu-operator", instance_of(NpuOperator), lambda operator: (operator.name,))
"""The operators of other distributions."""


def install() -> None:
    """Register the installed operators. Called once, when the device comes up."""
    for operator in INSTALLED.parts():
        register_one(operator.implementation)
