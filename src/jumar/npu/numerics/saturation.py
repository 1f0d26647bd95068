"""Saturating arithmetic, and which operators overflow.

In saturation mode a result that overflows becomes the largest number of its type, and NaN becomes 0 (the
vendor's page on INF_NAN_MODE_ENABLE: float16 exp(12) is 65504 and sqrt(-1) is 0; "the largest number of the type"
goes for float32 too). Operators that only choose or move values pass Inf and NaN on, so a mask filled with -Inf
stays one until something computes with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.overloads import tensors_in, written_by
from jumar.npu.core.plans import Call, Plan
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import policy
from jumar.npu.numerics import arithmetic, operators, overflow
from jumar.operators import has

Tensor = torch.Tensor
_CHECK = "aten::_amp_foreach_non_finite_check_and_unscale_"

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def is_finite(tensor: Tensor) -> bool:
    """Return whether all elements are finite; integers are, complex numbers count as such."""
    if tensor.dtype not in _FLOATS:
        return True
    stored = _stored(tensor)
    if not stored.numel():
        return True
    low, high = torch.aminmax(stored)
    return math.isfinite(low.item()) and math.isfinite(high.item())


def settle(result: Tensor, inputs: Iterable[Tensor], operator: str) -> None:
    """Make the non-finite elements of a computed CPU tensor what saturation makes of them, and raise the flag.

    The flag is raised only if all inputs are finite: what was infinite before did not overflow here.
    """
    if is_finite(result):
        return
    if all(is_finite(tensor) for tensor in inputs):
        overflow.record(operator, _kind(operator), saturating=True)
    _stored(result).nan_to_num_()


def _stored(tensor: Tensor) -> Tensor:
    """Return the dense tensor that holds the elements: of a sparse tensor its values, else the tensor itself."""
    if tensor.layout is torch.strided:
        return tensor
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


def layer(plan: Plan, call: Call) -> Call:
    """Saturate and watch what computes, where the chip saturates or overflows are collected."""
    saturating = arithmetic.is_strict() and arithmetic.saturates(STATE.profile)
    if not saturating and overflow.mode() is None:
        return call
    is_copy = plan.name == "aten::copy_"
    if plan.form == "view" or policy.runs_on_host(plan.name) or not (is_copy or operators.computes(plan.name)):
        return call
    writes = frozenset(written_by(plan.name).values())
    gives_new = plan.form == "fresh"

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(keys, *args, **kwargs)
        if is_copy and args[0].dtype is args[1].dtype:
            return result
        if gives_new and type(result) is Tensor and is_finite(result):
            return result
        written, read = _parted(plan, writes, args, kwargs)
        fresh = () if plan.form in ("inplace", "out") else tensors_in((result,))
        for tensor in (*written, *fresh):
            if saturating:
                settle(tensor, read, plan.name)
            elif not is_finite(tensor) and all(is_finite(item) for item in read):
                overflow.record(plan.name, _kind(plan.name), saturating=False)
                break
        return result

    return run


def _kind(operator: str) -> overflow.Kind:
    return "atomic" if has(operator, "atomic_adds") else "aicore"


def _parted(
    plan: Plan, writes: frozenset[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors that the operator has written, and those it has only read.

    What an in-place operator found in the tensor it wrote is gone, and taken for finite.
    """
    written: list[Tensor] = []
    read: list[Tensor] = []
    for name, value in (*zip(plan.names, args, strict=False), *kwargs.items()):
        (written if name in writes else read).extend(tensors_in((value,)))
    return written, read


def loss_scale_layer(plan: Plan, call: Call) -> Call:
    """Have a loss scaler's check read the overflow flag, where the chip saturates and nothing becomes infinite.

    So does torch_npu's `_amp_foreach_non_finite_check_and_unscale_` (op-plugin,
    `AmpForeachNonFiniteCheckAndUnscaleKernelNpu.cpp`): while the flag is up, `found_inf` is set, the flag is lowered
    and the gradients stay scaled; else they are unscaled. So `torch.amp.GradScaler` works there too.
    """
    if plan.name != _CHECK or not arithmetic.is_strict() or not arithmetic.saturates(STATE.profile):
        return call
    return _by_flag


def _by_flag(_keys: Any, gradients: Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    if overflow.flag() is None:
        for gradient in gradients:
            gradient.mul_(inv_scale)
    elif gradients:
        overflow.clear()
        found_inf.add_(1)
