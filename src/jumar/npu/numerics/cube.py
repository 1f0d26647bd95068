"""The matrix unit: which operands it rounds, and that a half result is rounded once.

float32 operands become float16 on the first generation and HF32 on later ones where that is allowed (see
`arithmetic`); the sums are float32. float16 and bfloat16 operands are multiplied as float32 and the sum is
rounded once, whatever the CPU's own half kernel does. `self` of an `add…` and a bias are not operands.

Results of float32 calls stay float32, with two exceptions of the vendor's kernels (`matmul_util.cpp`,
`aclnn_convolution.cpp`, `aclnn_convolution_backward.cpp` of ops-nn): a convolution in float16 comes out, and
its input's gradient, through float16, its weight's gradient does not; and a matrix product comes out through
float16 on later chips that are told to compute in float16, not on the first generation.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.plans import Call, Plan
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import policy
from jumar.npu.numerics import arithmetic, dtypes, saturation
from jumar.npu.numerics.operators import CONVOLUTION_BACKWARD, MATMULS, is_cube
from jumar.npu.numerics.rounding import to_hf32
from jumar.operators import functional_name
from jumar.soc.profiles import SocProfile

Tensor = torch.Tensor
HALVES = frozenset({torch.float16, torch.bfloat16})


def in_float32(plan: Plan, call: Call, keys: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the operator on float32 copies of its half tensors and round what it gives, or wrote, to their type.

    A CPU kernel may accumulate in half precision, round more often, or take ten times as long.

    Operands of several types are left to the operator, which refuses them.
    """
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    dtype = tensors[0].dtype
    if any(tensor.dtype is not dtype for tensor in tensors):
        return call(keys, *args, **kwargs)
    return _widened(plan, call, keys, args, kwargs, dtype)


def _widened(
    plan: Plan, call: Call, keys: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype
) -> Any:
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


_INPUT, _WEIGHT, _BIAS = range(3)


class Unit:
    """What the matrix unit of one chip does with an operand or a result. `operator` names who overflowed."""

    def __init__(self, profile: SocProfile, operator: str) -> None:
        self.profile = profile
        self.operator = operator
        self._saturates = arithmetic.saturates(profile)
        self._bits = profile.hf32_mantissa_bits or 11

    def rounded(self, tensor: Tensor, math: arithmetic.CubeMath, role: str) -> Tensor:
        """Return an operand as it is multiplied; only float32 ones change."""
        if tensor.dtype is not torch.float32:
            return tensor
        return to_hf32(tensor, self._bits, role) if math == "hf32" else self.through_float16(tensor)

    def through_float16(self, tensor: Tensor) -> Tensor:
        """Return a float32 tensor rounded to float16 as the chip casts, as float32."""
        half = tensor.half()
        if self._saturates:
            saturation.settle(half, (tensor,), self.operator)
        return half.float()


def layer(plan: Plan, call: Call) -> Call:
    """Round what the matrix unit rounds; other operators keep their call."""
    if not is_cube(plan.name) or not arithmetic.is_strict() or policy.runs_on_host(plan.name):
        return call
    unit = Unit(STATE.profile, plan.name)
    base = functional_name(plan.name)
    if base in MATMULS:
        return _matmul(plan, call, unit, MATMULS[base])
    return (_backward if base == CONVOLUTION_BACKWARD else _convolution)(plan, call, unit)


def _of_other_dtypes(plan: Plan, call: Call, takes_halves: bool = True) -> Call:
    """Return what runs the operator on anything but float32: halves in float32, the rest as it is or not at all."""
    check = dtypes.checker(plan)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if check is not None:
            check(args)
        if takes_halves and args[0].dtype in HALVES:
            return in_float32(plan, call, keys, args, kwargs)
        return call(keys, *args, **kwargs)

    return run


def _matmul(plan: Plan, call: Call, unit: Unit, operands: tuple[str, str]) -> Call:
    left, right = (plan.names.index(name) for name in operands)
    usual = arithmetic.matmul_math(unit.profile, {})
    narrows = bool(unit.profile.has_float32_cube)
    others = _of_other_dtypes(plan, call, takes_halves="out_dtype" not in plan.names)
    takes_several = unit.profile.is_aclnn_default and "out_dtype" not in plan.names

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if args[left].dtype is not args[right].dtype or args[0].dtype is not args[left].dtype:
            dtype = _common_dtype(plan, args) if takes_several else None
            if dtype is not None:
                return _widened(plan, run, keys, args, kwargs, dtype)
        if args[left].dtype is torch.float32:
            wanted = arithmetic.matmul_math(unit.profile, STATE.options) if STATE.options else usual
            if wanted == "keep":
                return call(keys, *args, **kwargs)
            rounded = list(args)
            rounded[left] = unit.rounded(args[left], wanted, "left")
            rounded[right] = unit.rounded(args[right], wanted, "right")
            result = call(keys, *rounded, **kwargs)
            if wanted == "float16" and narrows:
                result.copy_(unit.through_float16(result))
            return result
        return others(keys, *args, **kwargs)

    return run


_FLOATS = HALVES | {torch.float32}


def _common_dtype(plan: Plan, args: Sequence[Any]) -> torch.dtype | None:
    """Return what a product of several floating dtypes gives from Ascend910B on; None where an operand is another.

    The vendor's kernels promote the operands and cast to the dtype of `self`, of the vector in `mv`, and to the
    promoted one in `addmv` (op-plugin: `MmKernelNpuOpApi.cpp`, `MvKernelNpuOpApi.cpp`, `AddmvKernelNpuOpApi.cpp`).
    """
    tensors = [value for value in args if isinstance(value, Tensor)]
    if any(tensor.dtype not in _FLOATS for tensor in tensors):
        return None
    base = functional_name(plan.name)
    if base == "addmv":
        return functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return tensors[1 if base == "mv" else 0].dtype


def _check_float32(unit: Unit, math: arithmetic.CubeMath) -> None:
    """Raise RuntimeError where a convolution is to stay float32 on a chip that has none."""
    if math == "keep" and unit.profile.has_float32_cube is False:
        raise RuntimeError(
            f"{functional_name(unit.operator)}: The npu arch does not support FP32 for calculations when the "
            "cubeMathType is KEEP_DTYPE or USE_HF32, please change the setting of cubeMathType or the Dtype of input "
            "tensor. "
            'Set ACL_PRECISION_MODE to "allow_fp32_to_fp16", or convolve float16 tensors.'
        )


def _is_product(args: Sequence[Any]) -> bool:
    """Return whether a convolution of signals takes each element once, so that it is run as a matrix product.

    Source: `test_conv1d_special_case_forward_fp32` of op-plugin, whose results are not those of HF32.
    """
    if args[_INPUT].dim() != 3 or len(args) < 9:
        return False
    stride, padding, dilation, transposed, _, groups = args[3:9]
    return stride[0] == args[_WEIGHT].shape[2] and not padding[0] and dilation[0] == groups == 1 and not transposed


def _convolution(plan: Plan, call: Call, unit: Unit) -> Call:
    usual = arithmetic.convolution_math(unit.profile, {})
    narrows = bool(unit.profile.has_float32_cube)
    others = _of_other_dtypes(plan, call)

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if args[_INPUT].dtype is torch.float32:
            if narrows and _is_product(args):
                wanted = arithmetic.matmul_math(unit.profile, STATE.options)
            else:
                wanted = arithmetic.convolution_math(unit.profile, STATE.options) if STATE.options else usual
            _check_float32(unit, wanted)
            if wanted == "keep":
                return call(keys, *args, **kwargs)
            rounded = list(args)
            rounded[_INPUT] = unit.rounded(args[_INPUT], wanted, "left")
            rounded[_WEIGHT] = unit.rounded(args[_WEIGHT], wanted, "right")
            if wanted == "hf32":
                return call(keys, *rounded, **kwargs)
            if len(args) > _BIAS and args[_BIAS] is not None:
                rounded[_BIAS] = unit.through_float16(args[_BIAS])
            return unit.through_float16(call(keys, *rounded, **kwargs))
        return others(keys, *args, **kwargs)

    return run


def _backward(plan: Plan, call: Call, unit: Unit) -> Call:
    usual = arithmetic.convolution_math(unit.profile, {})
    others = _of_other_dtypes(plan, call)
    mask_at = plan.names.index("output_mask")

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if args[0].dtype is torch.float32:
            wanted = arithmetic.convolution_math(unit.profile, STATE.options) if STATE.options else usual
            _check_float32(unit, wanted)
            # NOTE: of a gradient without elements there is nothing to round, and no sum has the bias's shape.
            as_it_is = wanted == "keep" or not args[0].numel()
            return call(keys, *args, **kwargs) if as_it_is else rounding(keys, wanted, args, kwargs)
        return others(keys, *args, **kwargs)

    def rounding(keys: Any, wanted: arithmetic.CubeMath, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        gradient, source, weight, *rest = args
        by_input, by_weight, by_bias = args[mask_at]
        rest[mask_at - 3] = [by_input, by_weight, False]
        operands = [
            unit.rounded(gradient, wanted, "left") if by_input or by_weight else gradient,
            unit.rounded(source, wanted, "right") if by_weight else source,
            unit.rounded(weight, wanted, "weight") if by_input else weight,
        ]
        found: list[Any] = list(call(keys, *operands, *rest, **kwargs)) if by_input or by_weight else [None, None, None]
        if wanted == "float16" and by_input:
            found[0] = unit.through_float16(found[0])
        if by_bias:
            # NOTE: the bias's gradient is a plain sum, of the vector unit: its operand is not rounded.
            found[2] = gradient.sum([dim for dim in range(gradient.dim()) if dim != 1])
        return tuple(found)

    return run


AVERAGE = frozenset({"avg_pool2d", "avg_pool2d_backward"})
MAXIMUM = frozenset({"max_pool2d_with_indices", "max_pool2d_with_indices_backward"})


def pooling_layer(plan: Plan, call: Call) -> Call:
    """Compute float32 pooling in float16 on the chips of the first generation that do.

    Sources: the pages aclnnAvgPool2d, aclnnAvgPool2dBackward (910, 310P: a float32 input is computed in float16),
    aclnnMaxPool2dWithMask and aclnnMaxPool2dWithMaskBackward (910) of ops-nn.
    """
    if functional_name(plan.name) not in AVERAGE | MAXIMUM or plan.form != "fresh" or not arithmetic.is_strict():
        return call
    if not _is_narrow(functional_name(plan.name), STATE.profile) or policy.runs_on_host(plan.name):
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
