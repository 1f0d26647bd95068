"""`pytorchs_derivative`: PyTorch's own autograd kernel of an operator, as the device's autograd key calls it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.versions.kernels import get_kernel

_DEVICE = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
_BETWEEN = ("Python", "FuncTorchDynamicLayerBackMode", "Functionalize", "Conjugate", "Negative", "ZeroTensor")
"""Keys between autograd and the device (c10/core/DispatchKey.h): observers' modes, tensor subclasses, `torch.func`."""


def pytorchs_derivative(name: str) -> Callable[..., Any]:
    """Return a function with the operator's arguments that records its derivative as PyTorch does for the CPU.

    The operator itself goes on to whoever is between autograd and the device, then to the device. A keyset of the
    device alone would pass these by: an observer would see the operator's parts in its place.
    """
    call = get_kernel(name, "AutogradCPU").call_boxed
    heeded = _keys_with_a_kernel(name)

    def recorded(*args: Any) -> Any:
        present = torch._C._dispatch_tls_local_include_set()
        for argument in args:
            if isinstance(argument, torch.Tensor):
                present = present | torch._C._dispatch_keys(argument)
        return call(_DEVICE | ((present & heeded) - torch._C._dispatch_tls_local_exclude_set()), *args)

    return recorded


def _keys_with_a_kernel(name: str) -> torch._C.DispatchKeySet:
    """Return the keys that do something for the operator. The dispatcher leaves out the others."""
    keys = [getattr(torch._C.DispatchKey, key) for key in _BETWEEN if _does_something(name, key)]
    return functools.reduce(operator.or_, map(torch._C.DispatchKeySet, keys))


def _does_something(name: str, key: str) -> bool:
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
        return not torch._C._dispatch_kernel_for_dispatch_key_is_fallthrough(name, key)
    return torch._C._dispatch_has_backend_fallback(getattr(torch._C.DispatchKey, key))
