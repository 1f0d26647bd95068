"""What the adapter's code in front of a kernel does otherwise than PyTorch: errors and shapes that programs can see.

Source: op-plugin (`op_plugin/ops`). In all numerics. What it says of dimensions is in `dispatch.forms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.npu.core.overloads import overload_of
from jumar.npu.core.plans import LAYERS, Call, Plan
from jumar.npu.core.refusals import error_line
from jumar.npu.dispatch import policy
from jumar.operators import functional_name

Tensor = torch.Tensor

_INVALID_PARAMETER = "invalid parameter"


def rounding_layer(plan: Plan, call: Call) -> Call:
    """Give the error about the rounding mode of a division the adapter's code; others keep their call."""
    if "rounding_mode" not in plan.names or policy.runs_on_host(plan.name):
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        mode = kwargs.get("rounding_mode")
        try:
            return call(keys, *args, **kwargs)
        except RuntimeError as error:
            if mode in (None, "trunc", "floor"):
                raise
            raise RuntimeError(f"{error}{error_line('OPS', 1, _INVALID_PARAMETER)}") from error

    return run


def lerp_layer(plan: Plan, call: Call) -> Call:
    """Say of a result that does not fit what the chip's library says, to which the adapter leaves the check."""
    if plan.form != "inplace" or functional_name(plan.name) != "lerp":
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(keys, *args, **kwargs)
        except RuntimeError as error:
            if "broadcast shape" not in str(error):
                raise
            line = error_line("PTA", 100, "call acl api failed")
            raise RuntimeError(
                f"lerp_: NPU function error: call aclnnLerps failed, error code is 161002{line}.\n"
                f"AclNN_Parameter_Error(EZ1001): CheckShape failed: {error}"
            ) from error

    return run


def batch_norm_layer(plan: Plan, call: Call) -> Call:
    """Give the statistics of an inference the shape (C,), as on every accelerator, in place of the CPU's (0,).

    The kernel of the chip does not write them; here they are 0.
    """
    if plan.name != "aten::native_batch_norm":
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        result, mean, invstd = call(keys, *args, **kwargs)
        if not mean.numel() and result.dim() > 1:
            mean, invstd = (empty.new_zeros(result.shape[1]) for empty in (mean, invstd))
        return result, mean, invstd

    return run


def install() -> None:
    """Put these around all other layers. Called once."""
    LAYERS.extend([rounding_layer, lerp_layer, batch_norm_layer])


_pool = overload_of("aten::adaptive_avg_pool2d")


def _adaptive_avg_pool2d(x: Tensor, output_size: Any) -> Tensor:
    """Check the size in the adapter's words; PyTorch composes the rest."""
    if len(output_size) != 2:
        raise RuntimeError(f"adaptive_avg_pool2d: output size must be 2.{error_line('OPS', 1, _INVALID_PARAMETER)}")
    pooled: Tensor = _pool.decompose(x, output_size)
    return pooled


COMPOSITES: dict[str, Callable[..., Any]] = {"aten::adaptive_avg_pool2d": _adaptive_avg_pool2d}
