"""Custom operators that the vendor composes of others above autograd, such as `npu_fused_attention_score`.

The operator's results do not say what its backward needs (a dropout mask): the operators it calls do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.ops.mechanism.implement import IMPLEMENTATIONS, arguments, implements
from jumar.npu.ops.mechanism.schemas import NAMESPACE, schemas

_LIBRARY: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
"""Kept alive: PyTorch drops the kernels of a library that is collected."""


def call(name: str, *args: Any) -> Any:
    """Call another custom operator from a composite one. On CPU tensors, inside a kernel, its function is called."""
    if any(isinstance(item, torch.Tensor) and item.is_cpu for item in args):
        return IMPLEMENTATIONS[name].function(*args)
    return getattr(torch.ops.npu, name)(*args)


def composite(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function, of tensors of any device, as this operator."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        schema = schemas()[name]

        def kernel(*args: Any, **kwargs: Any) -> Any:
            positional, keywords = arguments(schema, args, kwargs)
            return function(*positional, **keywords)

        implements(name, differentiable=False)(function)
        _LIBRARY.m.impl(name, "AutogradPrivateUse1", kernel, False)
        return function

    return register
