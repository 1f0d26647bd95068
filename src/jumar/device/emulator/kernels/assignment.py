"""`parameter.data = tensor` across the CPU and the npu, as the vendor's build allows it.

PyTorch asks this operator whether one tensor may take another's contents, and knows no extra backend. With
the answer, an assignment moves a parameter in place, and so does `module.to("npu")`: the parameter stays the
same object, with its hooks, and an optimizer made before goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator.plans import CPU_KEYS

_NAME = "aten::_has_compatible_shallow_copy_type"
_pytorchs = torch.library.get_kernel(_NAME, "CPU").call_boxed
_DENSE = frozenset({"cpu", "npu"})


def compatible(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether `tensor` may take the contents of `other`, one of them on the npu."""
    if {tensor.device.type, other.device.type} == _DENSE:
        return tensor.layout == other.layout == torch.strided
    return bool(_pytorchs(CPU_KEYS, tensor, other))


COMPOSITES: dict[str, Callable[..., Any]] = {_NAME: compatible}
