"""Register the functions of `formats.cast` as operators.

A format cast is the identity for autograd: its gradient passes as it is, in the format it comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.overloads import overload_of
from jumar.npu.formats import cast, methods, state
from jumar.npu.formats.names import base_of_rank
from jumar.npu.ops.mechanism.implement import FUNCTIONS, OWN, Own

Tensor = torch.Tensor


class _Identity(torch.autograd.Function):
    """The autograd node of a format cast that made another tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, made: list[Tensor]) -> Tensor:
        """Return what the cast has made."""
        del ctx, tensor
        return made.pop()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Pass the gradient."""
        del ctx
        return gradient, None


def _recording(name: str) -> Callable[..., Any]:
    def kernel(keyset: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        operator = overload_of(f"npu::{name}")
        with torch._C._AutoDispatchBelowAutograd():
            result: Tensor = operator.redispatch(keyset & torch._C._after_autograd_keyset, tensor, *args, **kwargs)
        if result is tensor or not (torch.is_grad_enabled() and tensor.requires_grad):
            return result
        recorded: Tensor = _Identity.apply(tensor, [result])  # type: ignore[no-untyped-call]
        return recorded

    return kernel


def _below(name: str) -> Callable[..., Any]:
    """Autograd kernel of a change of format in place: values stay, so there is nothing to record."""

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        operator = overload_of(f"npu::{name}")
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

    return kernel


def _like(tensor: Tensor, dst: Tensor, **dtypes: Any) -> Tensor:
    return cast.npu_format_cast(tensor, state.format_of(dst), **dtypes)


def _write(tensor: Tensor, src: Tensor, **_: Any) -> Tensor:
    """`npu_format_cast_(self, src)`: the values of `src` in the format that `self` has."""
    return tensor.copy_(src)


def _write_recorded(_keyset: Any, tensor: Tensor, src: Tensor, **_: Any) -> Tensor:
    return tensor.copy_(src)


def _same(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(tensor)


def _itself(tensor: Tensor, *_: Any, **__: Any) -> Tensor:
    return tensor


for _name, _function in (
    ("npu_format_cast", cast.npu_format_cast),
    ("npu_format_cast.Tensor", _like),
    ("_npu_format_cast", cast.npu_format_cast),
    ("_npu_format_cast.aclnn", cast.npu_format_cast),
    ("_npu_format_cast.input_dtype", cast.npu_format_cast),
):
    OWN[_name] = Own(kernel=_function, meta=_same, autograd=_recording(_name))

OWN |= {
    "npu_format_cast_.acl_format": Own(
        kernel=cast.npu_format_cast_, meta=_itself, autograd=_below("npu_format_cast_.acl_format")
    ),
    "npu_format_cast_": Own(kernel=_write, meta=_itself, autograd=_write_recorded),
    "copy_memory_": Own(kernel=cast.copy_memory_, meta=_itself, autograd=_below("copy_memory_")),
    "get_npu_format": Own(
        kernel=lambda tensor: int(cast.get_npu_format(tensor)), meta=lambda tensor: int(base_of_rank(tensor.dim()))
    ),
    "get_storage_size": Own(kernel=cast.get_storage_size, meta=lambda tensor: tensor.numel()),
    "empty_with_format": Own(kernel=cast.empty_with_format, meta=cast.empty_with_format),
    "empty_with_swapped_memory": Own(kernel=cast.empty_with_swapped_memory, meta=cast.empty_with_swapped_memory),
    "unsafe_empty_with_format": Own(kernel=cast.unsafe_empty_with_format, meta=cast.unsafe_empty_with_format),
}

FUNCTIONS |= {
    "npu_format_cast": methods.format_cast,
    "npu_format_cast_": methods.format_cast_,
    "get_npu_format": cast.get_npu_format,
}
