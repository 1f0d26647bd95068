"""Dtypes that the chip's operators do not take: the parameter error of the vendor's library, and what to do.

Only what the support tables know is refused. Numbers and other 0-dimensional tensors are never looked at, because
PyTorch hands a Python number on as one. Chips without bfloat16 refuse it in everything that computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from jumar.device.emulator import policy
from jumar.device.emulator.numerics import arithmetic, operators
from jumar.device.emulator.plans import Call, Plan
from jumar.device.emulator.state import STATE
from jumar.device.soc import SocProfile
from jumar.device.support.dtypes import DtypeLimit, acl_name, dtype_limits

Tensor = torch.Tensor
Refused = frozenset[torch.dtype]

_KNOWN = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
"""Dtypes that are judged; others have no kernel on most chips and are nobody's surprise."""

_WITHOUT_BFLOAT16 = tuple(dtype for dtype in _KNOWN if dtype != "bfloat16")

_INVALID = 161002
"""ACLNN_ERR_PARAM_INVALID."""


def layer(plan: Plan, call: Call) -> Call:
    """Refuse the dtypes that the operator does not take on this chip; one that takes all keeps its call."""
    if plan.form == "view" or not arithmetic.is_strict() or policy.runs_on_host(plan.name):
        return call
    single, many = _checks(plan, STATE.profile)
    if not single and not many:
        return call

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        num = len(args)
        for position, refused, limit in single:
            if position < num:
                tensor = args[position]
                if isinstance(tensor, Tensor) and tensor.dtype in refused and tensor.dim():
                    _refuse(plan.name, limit, tensor.dtype)
        for position, refused, limit in many:
            for tensor in args[position] if position < num and args[position] is not None else ():
                if isinstance(tensor, Tensor) and tensor.dtype in refused and tensor.dim():
                    _refuse(plan.name, limit, tensor.dtype)
        return call(keys, *args, **kwargs)

    return run


Check = tuple[int, Refused, DtypeLimit]


def _checks(plan: Plan, profile: SocProfile) -> tuple[Sequence[Check], Sequence[Check]]:
    """Return what to check: tensor arguments by position, and arguments that are lists of tensors."""
    known = {limit.argument: limit for limit in dtype_limits(profile, plan.name)}
    no_bfloat16 = not profile.has_bfloat16 and operators.computes(plan.name)
    single: list[Check] = []
    many: list[Check] = []
    for position in (*plan.single, *plan.lists):
        name = plan.names[position]
        limit = known.get(name)
        if limit is None:
            if not no_bfloat16:
                continue
            limit = _without_bfloat16(plan, name)
        refused = frozenset(getattr(torch, dtype) for dtype in _KNOWN if dtype not in limit.dtypes)
        if refused:
            (single if position in plan.single else many).append((position, refused, limit))
    return single, many


def _without_bfloat16(plan: Plan, argument: str) -> DtypeLimit:
    """Return the limit of a computing operator on a chip without bfloat16, where no table has one."""
    words = operators.base_name(plan.name).strip("_").split("_")
    function = "aclnn" + "".join(word.capitalize() for word in words)
    return DtypeLimit(argument=argument, function=function, parameter=argument, dtypes=_WITHOUT_BFLOAT16)


def refuse_bfloat16(operator: str, function: str, parameter: str) -> NoReturn:
    """Raise the RuntimeError of an operator that gets, or is to give, bfloat16 on a chip that has none."""
    limit = DtypeLimit(argument=parameter, function=function, parameter=parameter, dtypes=_WITHOUT_BFLOAT16)
    _refuse(operator, limit, torch.bfloat16)


def _refuse(operator: str, limit: DtypeLimit, dtype: torch.dtype) -> NoReturn:
    """Raise the RuntimeError that torch_npu raises for a parameter its library refuses."""
    name = str(dtype).removeprefix("torch.")
    listed = ",".join(acl_name(item) for item in limit.dtypes)
    raise RuntimeError(
        f"{operators.base_name(operator)}: NPU function error: call {limit.function} failed, error code is {_INVALID}\n"
        f"[ERROR] {time.strftime('%Y-%m-%d-%H:%M:%S')} (PID:{os.getpid()}, Device:0, RankID:-1) ERR00100 PTA call acl "
        "api failed.\n"
        f"AclNN_Parameter_Error(EZ1001): Tensor {limit.parameter} not implemented for {acl_name(name)}, should be in "
        f"dtype support list [{listed},].\n"
        f"{operator} on {STATE.soc} takes no {name}: {_advice(name, limit.dtypes)}"
    )


def _advice(dtype: str, allowed: tuple[str, ...]) -> str:
    if dtype == "bfloat16":
        return "the chip has no bfloat16; use float16 or float32."
    if dtype in ("float64", "float16") and "float32" in allowed:
        return "cast it with .float()."
    if dtype.startswith("complex"):
        return "compute with its real and imaginary parts (torch.view_as_real)."
    wanted = next((item for item in ("int64", "int32", "float32") if item in allowed), allowed[0] if allowed else "")
    return f"cast it with .to(torch.{wanted}), or compute it on the host."
