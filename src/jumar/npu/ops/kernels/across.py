"""Operators that meet tensors of the CPU and the npu: `parameter.data = tensor`, and convolutions.

The vendor's build allows the assignment. PyTorch asks `_has_compatible_shallow_copy_type` whether one tensor may take
another's contents, and knows no extra backend. With the answer, an assignment moves a parameter in place, and so does
`module.to("npu")`: the parameter stays the same object, with its hooks, and an optimizer made before goes on with it.

The device runs `aten::convolution` itself. PyTorch composes it all the same when tensors of several devices meet, and
then calls `convolution_overrideable`; on CUDA the same call ends in this error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from jumar.npu.core.plans import CPU_KEYS
from jumar.npu.core.versions.kernels import get_kernel

_NAME = "aten::_has_compatible_shallow_copy_type"
_pytorchs = get_kernel(_NAME, "CPU").call_boxed
_DENSE = frozenset({"cpu", "npu"})


def compatible(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether `tensor` may take the contents of `other`, at least one of them on the npu.

    As with dense tensors of the CPU, lazy conjugation and negation of one of them do not matter.
    """
    kinds = {tensor.device.type, other.device.type}
    if kinds <= _DENSE and tensor.layout == other.layout == torch.strided:
        return True
    return kinds != _DENSE and bool(_pytorchs(CPU_KEYS, tensor, other))


COMPOSITES: dict[str, Callable[..., Any]] = {_NAME: compatible}


def _overrideable(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *_: Any) -> NoReturn:
    """`convolution_overrideable`: raise the RuntimeError of a convolution that mixes devices."""
    name, other = ("weight", weight) if weight.type() != input.type() or bias is None else ("bias", bias)
    raise RuntimeError(f"Input type ({input.type()}) and {name} type ({other.type()}) should be the same")


KERNELS: dict[str, Callable[..., Any]] = {"aten::convolution_overrideable": _overrideable}
