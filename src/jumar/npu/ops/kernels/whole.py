"""Operators that PyTorch composes of parts without a kernel on the chip, and for which the chip has one of its own.

`torch.inverse` is `linalg_inv_ex` elsewhere, which falls back to the host; torch_npu calls `aclnnInverse` for it. Here
the composition still computes the values, while its parts count as work of the device (`policy.as_one`). The chip's
function takes halves, which the parts do not: they are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.overloads import overload_of
from jumar.npu.core.plans import Plan
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import policy
from jumar.npu.numerics import dtypes
from jumar.soc.support import SupportTables

Tensor = torch.Tensor

_WHOLE = ("aten::inverse", "aten::slogdet", "aten::linalg_cholesky")
"""Of the composed operators in op-plugin's list, those whose parts have no kernel (found by running them all)."""
_HALVES = (torch.float16, torch.bfloat16)


def _kernel(name: str) -> Callable[..., Any]:
    overload, plan = overload_of(name), Plan(name)

    def kernel(tensor: Tensor, **kwargs: Any) -> Any:
        tables = SupportTables.load(STATE.settings.soc, policy.tables_version())
        if tables.operator(name).status != "native":
            return overload.decompose(tensor, **kwargs)
        check = dtypes.checker(plan)
        if check is not None:
            check((tensor,))
        is_half = tensor.dtype in _HALVES
        with policy.as_one():
            found = overload.decompose(tensor.float() if is_half else tensor, **kwargs)
        return _cast(found, tensor.dtype) if is_half else found

    return kernel


def _kernel_of_output(name: str) -> Callable[..., Any]:
    compute = _kernel(name)

    def kernel(tensor: Tensor, *, out: Tensor, **kwargs: Any) -> Tensor:
        found = compute(tensor, **kwargs)
        return out.resize_(found.shape).copy_(found)

    return kernel


def _cast(found: Any, dtype: torch.dtype) -> Any:
    return found.to(dtype) if isinstance(found, Tensor) else tuple(item.to(dtype) for item in found)


COMPOSITES: dict[str, Callable[..., Any]] = {
    **{name: _kernel(name) for name in _WHOLE},
    **{f"{name}.out": _kernel_of_output(name) for name in ("aten::inverse", "aten::linalg_cholesky")},
}
"""Kernels for the autograd key: they call differentiable operators."""
