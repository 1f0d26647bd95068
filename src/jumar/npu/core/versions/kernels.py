"""`get_kernel`: what an operator runs for a dispatch key, under every version of PyTorch; what a call has to derive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.overloads import tensors_in
from jumar.npu.core.versions.native_part import extension


def get_kernel(name: str, key: str) -> Any:
    """Return the kernel that `name` (`aten::add.Tensor`) runs for a dispatch key, as `torch.library.get_kernel` does.

    It is called as `call_boxed(keyset, *args, **kwargs)`. Raises RuntimeError for an operator or kernel that there
    is not, DeviceError where an extension must be compiled for it and cannot.
    """
    if hasattr(torch.library, "get_kernel"):
        return torch.library.get_kernel(name, key)
    base, _, overload = name.partition(".")
    return extension().kernel_of(base, overload, key)


def any_requires_grad(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a tensor among the arguments of a call, or in a list of them, requires a gradient."""
    if hasattr(torch._C, "_any_requires_grad"):
        return bool(torch._C._any_requires_grad(*args, **kwargs))
    return any(tensor.requires_grad for tensor in tensors_in((*args, *kwargs.values())))
