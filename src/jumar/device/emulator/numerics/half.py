"""Run an operator on half tensors as the matrix unit does: products and sums in float32, one rounding at the end.

A CPU kernel may accumulate in half precision, round more often, or take ten times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumar.device.emulator.plans import Call, Plan

Tensor = torch.Tensor
HALVES = frozenset({torch.float16, torch.bfloat16})


def in_float32(plan: Plan, call: Call, keys: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the operator on float32 copies of its half tensors and round what it gives, or wrote, to their type.

    Operands of several types are left to the operator, which refuses them.
    """
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    dtype = tensors[0].dtype
    if any(tensor.dtype is not dtype for tensor in tensors):
        return call(keys, *args, **kwargs)
    wide = [value.float() if isinstance(value, Tensor) else value for value in args]
    if plan.form == "out":
        return _written(call, keys, args, wide, kwargs)
    result = call(keys, *wide, **kwargs)
    if plan.form == "inplace":
        args[0].copy_(wide[0])
        return args[0]
    return _rounded(result, dtype)


def _rounded(result: Any, dtype: torch.dtype) -> Any:
    if isinstance(result, Tensor):
        return result.to(dtype)
    if isinstance(result, (list, tuple)):
        return type(result)(_rounded(item, dtype) for item in result)
    return result


def _written(call: Call, keys: Any, args: Sequence[Any], wide: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """`out=`: a result of another shape than the output's has the half kernel resize that, or refuse to."""
    out: Tensor = kwargs["out"]
    rest = {name: value for name, value in kwargs.items() if name != "out"}
    result = torch.empty(0, dtype=torch.float32, device="cpu")
    call(keys, *wide, **rest, out=result)
    if out.shape != result.shape:
        call(keys, *args, **kwargs)
    return out.copy_(result)
