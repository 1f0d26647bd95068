"""Pooling in float16: what the first generation makes of float32 pooling where it may lower the precision.

Sources: the pages aclnnAvgPool2d, aclnnAvgPool2dBackward (910, 310P: a float32 input is computed in float16),
aclnnMaxPool2dWithMask and aclnnMaxPool2dWithMaskBackward (910) of ops-nn.
"""

from __future__ import annotations

from typing import Any

import torch

from jumar.device.emulator import policy
from jumar.device.emulator.numerics import arithmetic
from jumar.device.emulator.numerics.cube import Unit
from jumar.device.emulator.numerics.operators import base_name
from jumar.device.emulator.plans import Call, Plan
from jumar.device.emulator.state import STATE
from jumar.device.soc import SocProfile

AVERAGE = frozenset({"avg_pool2d", "avg_pool2d_backward"})
MAXIMUM = frozenset({"max_pool2d_with_indices", "max_pool2d_with_indices_backward"})


def layer(plan: Plan, call: Call) -> Call:
    """Compute float32 pooling in float16 on the chips that do."""
    if base_name(plan.name) not in AVERAGE | MAXIMUM or plan.form != "fresh" or not arithmetic.is_strict():
        return call
    if not _is_narrow(base_name(plan.name), STATE.profile) or policy.runs_on_host(plan.name):
        return call
    unit = Unit(STATE.profile, plan.name)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if args[0].dtype is not torch.float32 or not arithmetic.allows_float16(unit.profile, STATE.options):
            return call(keys, *args, **kwargs)
        narrow = [_narrowed(unit, value) for value in args]
        result = call(keys, *narrow, **kwargs)
        if isinstance(result, torch.Tensor):
            return _narrowed(unit, result)
        return type(result)(_narrowed(unit, item) for item in result)

    return run


def _is_narrow(base: str, profile: SocProfile) -> bool:
    return profile.has_float32_cube is False and (base in AVERAGE or profile.family == "A1")


def _narrowed(unit: Unit, value: Any) -> Any:
    is_wide = isinstance(value, torch.Tensor) and value.dtype is torch.float32
    return unit.through_float16(value) if is_wide else value
