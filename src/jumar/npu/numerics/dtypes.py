"""Dtypes that the chip's operators do not take: the parameter error of the vendor's library says so.

Only what the support tables know is refused. Numbers and other 0-dimensional tensors are never looked at, because
PyTorch hands a Python number on as one. Chips without bfloat16 refuse it in everything that computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from jumar.npu.core.overloads import arguments_of
from jumar.npu.core.plans import Call, Plan
from jumar.npu.core.refusals import error_line
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import policy
from jumar.npu.numerics import arithmetic, operators
from jumar.operators import functional_name
from jumar.soc.profiles import SocProfile
from jumar.soc.support.dtypes import DtypeLimit, acl_name, dtype_limits

Tensor = torch.Tensor
Refused = frozenset[torch.dtype]
Check = tuple[int, Refused, DtypeLimit]
"""Position of an argument, the dtypes it must not have, and what to say."""

_KNOWN = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
"""Dtypes that are judged; other ones have no kernel on most chips, so that they are not reported."""

_WITHOUT_BFLOAT16 = tuple(dtype for dtype in _KNOWN if dtype != "bfloat16")

_INVALID = 161002
"""ACLNN_ERR_PARAM_INVALID."""


def layer(plan: Plan, call: Call) -> Call:
    """Refuse the dtypes that the operator does not take on this chip; one that takes all keeps its call.

    Operators of the matrix unit look at the dtype of their operands anyway, and check there.
    """
    if plan.form == "view" or operators.is_cube(plan.name) or policy.runs_on_host(plan.name):
        return call
    check = checker(plan)
    if check is None:
        return call
    required, others = _checks(plan, STATE.profile)
    is_simple = not others and len(required) == 1 and required[0][0] == 0
    if is_simple and not _has_keywords(plan):
        return _of_first(plan.name, call, *required[0][1:])

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        check(args)
        return call(keys, *args, **kwargs)

    return run


def _of_first(operator: str, call: Call, refused: Refused, limit: DtypeLimit) -> Call:
    """Check the first argument only. NOTE: this is most operators with a limit; the plainest call saves 0.4 us."""

    def run(keys: Any, first: Tensor, *rest: Any) -> Any:
        if first.dtype in refused and first.dim():
            _refuse(operator, limit, first.dtype)
        return call(keys, first, *rest)

    return run


def checker(plan: Plan) -> Callable[[Sequence[Any]], None] | None:
    """Return what raises RuntimeError for arguments of a dtype that is not taken; None where all are."""
    required, others = _checks(plan, STATE.profile) if arithmetic.is_strict() else ((), ())
    if not required and not others:
        return None

    def check(args: Sequence[Any]) -> None:
        for position, refused, limit in required:
            tensor = args[position]
            if tensor.dtype in refused and tensor.dim():
                _refuse(plan.name, limit, tensor.dtype)
        for position, refused, limit in others:
            value = args[position] if position < len(args) else None
            for tensor in (value,) if isinstance(value, Tensor) else value or ():
                if isinstance(tensor, Tensor) and tensor.dtype in refused and tensor.dim():
                    _refuse(plan.name, limit, tensor.dtype)

    return check


def _checks(plan: Plan, profile: SocProfile) -> tuple[Sequence[Check], Sequence[Check]]:
    """Return what to check by position: arguments that are always a tensor, and those that may be none or several."""
    known = {limit.argument: limit for limit in dtype_limits(profile, plan.name)}
    no_bfloat16 = not profile.has_bfloat16 and operators.computes(plan.name)
    required: list[Check] = []
    others: list[Check] = []
    always = _always_tensors(plan)
    for position in (*plan.single, *plan.lists):
        name = plan.names[position]
        limit = known.get(name)
        if limit is None:
            if not no_bfloat16:
                continue
            limit = _without_bfloat16(plan, name)
        refused = frozenset(getattr(torch, dtype) for dtype in _KNOWN if dtype not in limit.dtypes)
        if refused:
            (required if name in always else others).append((position, refused, limit))
    return required, others


def _always_tensors(plan: Plan) -> frozenset[str]:
    return frozenset(item.name for item in arguments_of(plan.name) if str(item.type) == "Tensor")


def _has_keywords(plan: Plan) -> bool:
    return any(item.kwarg_only for item in arguments_of(plan.name))


def _without_bfloat16(plan: Plan, argument: str) -> DtypeLimit:
    """Return the limit of a computing operator on a chip without bfloat16, where no table has one."""
    words = functional_name(plan.name).strip("_").split("_")
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
        f"{functional_name(operator)}: NPU function error: call {limit.function} failed, error code is {_INVALID}"
        f"{error_line('PTA', 100, 'call acl api failed')}.\n"
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
