"""Operators that compute each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jumar.tune.engines.onnx.draft import TABLE, Draft, Value, operator, refuse, unary

SAME = {
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "erf": "Erf", "sqrt": "Sqrt", "floor": "Floor", "ceil": "Ceil", "round": "Round", "reciprocal": "Reciprocal",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "neg": "Neg", "abs": "Abs", "sign": "Sign",
}  # fmt: skip
TABLE.update({name: unary(kind) for name, kind in SAME.items()})


def operands(draft: Draft, dtype: torch.dtype, *values: Value | float | bool) -> list[str]:
    """Return tensors and numbers in one dtype."""
    return [draft.cast(v, dtype) if isinstance(v, Value) else draft.number(v, dtype) for v in values]


def promoted(*values: Value | float | bool) -> torch.dtype:
    """Return the dtype in which PyTorch computes these."""
    like = [
        torch.empty((1,) * min(v.rank, 1), dtype=v.dtype, device="meta") if isinstance(v, Value) else v for v in values
    ]
    result = like[0]
    return torch.result_type(result, like[1]) if len(like) > 1 else torch.result_type(result, result)


def _arithmetic(kind: str) -> Callable[..., str]:
    def convert(draft: Draft, self: Value, other: Value | float, alpha: float = 1) -> str:
        dtype = draft.out[0].dtype
        if dtype is torch.bool:
            raise refuse(f"{kind} of booleans")
        left, right = operands(draft, dtype, self, other)
        if alpha != 1:
            right = draft.add("Mul", right, draft.number(alpha, dtype))
        return draft.add(kind, left, right)

    return convert


TABLE.update({"add": _arithmetic("Add"), "sub": _arithmetic("Sub")})


@operator("rsub")
def _rsub(draft: Draft, self: Value, other: Value | float, alpha: float = 1) -> str:
    dtype = draft.out[0].dtype
    right, left = operands(draft, dtype, self, other)
    if alpha != 1:
        right = draft.add("Mul", right, draft.number(alpha, dtype))
    return draft.add("Sub", left, right)


@operator("mul")
def _mul(draft: Draft, self: Value, other: Value | float) -> str:
    dtype = draft.out[0].dtype
    return draft.add("And" if dtype is torch.bool else "Mul", *operands(draft, dtype, self, other))


@operator("div", "true_divide")
def _div(draft: Draft, self: Value, other: Value | float, rounding_mode: str | None = None) -> str:
    dtype = draft.out[0].dtype
    if rounding_mode is not None:
        raise refuse("a division that rounds")  # PyTorch corrects the quotient by the remainder
    return draft.add("Div", *operands(draft, dtype, self, other))


@operator("maximum", "minimum", "max.other", "min.other")
def _extremum(draft: Draft, self: Value, other: Value, *, name: str) -> str:
    kind = "Max" if name.startswith("max") else "Min"
    if draft.out[0].dtype is torch.bool:
        return draft.add("Or" if kind == "Max" else "And", *operands(draft, torch.bool, self, other))
    return draft.add(kind, *operands(draft, draft.out[0].dtype, self, other))


@operator("pow")
def _pow(draft: Draft, self: Value | float, exponent: Value | float) -> str:
    dtype = draft.out[0].dtype
    if not dtype.is_floating_point:
        raise refuse("a power of integers")
    base, power = operands(draft, dtype, self, exponent)
    if exponent == 2:
        return draft.add("Mul", base, base)
    return draft.add("Sqrt", base) if exponent == 0.5 else draft.add("Pow", base, power)


@operator("rsqrt")
def _rsqrt(draft: Draft, self: Value) -> str:
    return draft.add("Reciprocal", draft.add("Sqrt", draft.cast(self, draft.out[0].dtype)))


@operator("square")
def _square(draft: Draft, self: Value) -> str:
    name = draft.cast(self, draft.out[0].dtype)
    return draft.add("Mul", name, name)


@operator("trunc")
def _trunc(draft: Draft, self: Value) -> str:
    if not self.is_float:
        return draft.add("Identity", self.name)
    return draft.add("Mul", draft.add("Sign", self.name), draft.add("Floor", draft.add("Abs", self.name)))


COMPARISONS = {"eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual", "ne": "Equal"}


def _comparison(kind: str, *, negated: bool) -> Callable[..., str]:
    def convert(draft: Draft, self: Value, other: Value | float) -> str:
        dtype = promoted(self, other)
        if dtype is torch.bool and kind != "Equal":
            dtype = torch.int32
        made = draft.add(kind, *operands(draft, dtype, self, other))
        return draft.add("Not", made) if negated else made

    return convert


TABLE.update({name: _comparison(kind, negated=name == "ne") for name, kind in COMPARISONS.items()})

LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}


def _logic(kind: str, *, only_bool: bool) -> Callable[..., str]:
    def convert(draft: Draft, self: Value, other: Value | float) -> str:
        if only_bool and draft.out[0].dtype is not torch.bool:
            raise refuse("bitwise logic of integers")
        return draft.add(kind, *operands(draft, torch.bool, self, other))

    return convert


for _word, _kind in LOGIC.items():
    TABLE[f"bitwise_{_word}"] = TABLE[f"__{_word}__"] = _logic(_kind, only_bool=True)
    TABLE[f"logical_{_word}"] = _logic(_kind, only_bool=False)


@operator("logical_not", "bitwise_not")
def _not(draft: Draft, self: Value, *, name: str) -> str:
    if name == "bitwise_not" and self.dtype is not torch.bool:
        raise refuse("bitwise logic of integers")
    return draft.add("Not", draft.cast(self, torch.bool))


@operator("isnan")
def _isnan(draft: Draft, self: Value) -> str:
    if not self.is_float:
        raise refuse("isnan of integers")
    return draft.add("IsNaN", self.name)


@operator("where")
def _where(draft: Draft, condition: Value, self: Value | float, other: Value | float) -> str:
    dtype = draft.out[0].dtype
    return draft.add("Where", draft.cast(condition, torch.bool), *operands(draft, dtype, self, other))


@operator("masked_fill")
def _masked_fill(draft: Draft, self: Value, mask: Value, value: Value | float) -> str:
    (filled,) = operands(draft, self.dtype, value)
    return draft.add("Where", draft.cast(mask, torch.bool), filled, self.name)


@operator("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6")
def _clamp(draft: Draft, self: Value, *, name: str, **bounds: Any) -> str:
    low, high = bounds.get("min"), bounds.get("max")
    if name in {"hardtanh", "relu6"}:
        low, high = (0, 6) if name == "relu6" else (bounds.get("min_val", -1), bounds.get("max_val", 1))
    dtype = draft.out[0].dtype
    made = draft.cast(self, dtype)
    if dtype in {torch.float32, torch.float64} and _are_bounds(low, high):
        # Engines compute a convolution and what follows it at once where this is one operator with constant bounds.
        # A bound that is left out would be the greatest finite number.
        limits = (-math.inf if low is None else low, math.inf if high is None else high)
        return draft.add("Clip", made, *operands(draft, dtype, *limits))
    if low is not None:
        made = draft.add("Max", made, *operands(draft, dtype, low))
    return made if high is None else draft.add("Min", made, *operands(draft, dtype, high))


def _are_bounds(low: Any, high: Any) -> bool:
    """Tell whether these are numbers in order: where they are not, all elements become the upper one in PyTorch."""
    numbers = [bound for bound in (low, high) if bound is not None]
    return all(isinstance(bound, (int, float)) for bound in numbers) and numbers == sorted(numbers)


@operator("relu")
def _relu(draft: Draft, self: Value) -> str:
    return draft.add("Relu", self.name)


@operator("leaky_relu")
def _leaky_relu(draft: Draft, self: Value, negative_slope: float = 0.01) -> str:
    return draft.add("LeakyRelu", self.name, alpha=float(negative_slope))


@operator("prelu", "_prelu_kernel")
def _prelu(draft: Draft, self: Value, weight: Value) -> str:
    if weight.rank > 1 or self.rank < 2:
        return draft.add("PRelu", self.name, weight.name)
    return draft.add("PRelu", self.name, draft.reshape(weight.name, [-1, *([1] * (self.rank - 2))]))


@operator("elu")
def _elu(draft: Draft, self: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> str:
    if scale != 1 or input_scale != 1:
        raise refuse("a scaled elu")
    return draft.add("Elu", self.name, alpha=float(alpha))


@operator("softplus")
def _softplus(draft: Draft, self: Value, beta: float = 1, threshold: float = 20) -> str:
    if beta != 1 or threshold < 20:  # beyond the threshold PyTorch returns what it is given
        raise refuse("a scaled softplus, or one that is cut off")
    return draft.add("Softplus", self.name)


@operator("gelu")
def _gelu(draft: Draft, self: Value, approximate: str = "none") -> str:
    return draft.add("Gelu", self.name, approximate=approximate)


@operator("silu")
def _silu(draft: Draft, self: Value) -> str:
    return draft.add("Mul", self.name, draft.add("Sigmoid", self.name))


@operator("hardsigmoid")
def _hardsigmoid(draft: Draft, self: Value) -> str:
    return draft.add("HardSigmoid", self.name, alpha=1 / 6, beta=0.5)


@operator("hardswish")
def _hardswish(draft: Draft, self: Value) -> str:
    return draft.add("HardSwish", self.name)


@operator("mish")
def _mish(draft: Draft, self: Value) -> str:
    return draft.add("Mul", self.name, draft.add("Tanh", draft.add("Softplus", self.name)))


@operator("log2", "log10", "exp2")
def _other_base(draft: Draft, self: Value, *, name: str) -> str:
    dtype = draft.out[0].dtype
    if name == "exp2":
        return draft.add("Pow", draft.number(2.0, dtype), draft.cast(self, dtype))
    factor = 1 / math.log(int(name.removeprefix("log")))
    return draft.add("Mul", draft.add("Log", draft.cast(self, dtype)), draft.number(factor, dtype))


@operator("_to_copy", "to", "type_as", "clone", "contiguous", "alias", "detach", "lift_fresh_copy", "dropout")
def _to(draft: Draft, self: Value | None = None, **rest: Any) -> str:
    if rest.get("train") and rest.get("p"):
        raise refuse("dropout")
    value = self if self is not None else rest["input"]
    to = draft.out[0].dtype
    if value.is_float and not to.is_floating_point and to is not torch.bool and to not in {torch.int32, torch.int64}:
        raise refuse("a conversion of fractions to a narrow integer")
    return draft.add("Identity", draft.cast(value, to))


@operator("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine")
def _fake_quantize(draft: Draft, self: Value, quant_min: int, quant_max: int, **rest: Any) -> str:
    scale, zero, axis = rest.get("scale"), rest.get("zero_point"), rest.get("axis")
    narrow = {(0, 255): torch.uint8, (-128, 127): torch.int8, (-127, 127): torch.int8}.get((quant_min, quant_max))
    if narrow is None:
        raise refuse(f"steps from {quant_min} to {quant_max}")
    scales = draft.number(scale, self.dtype) if isinstance(scale, float) else _known(scale, draft, self.dtype)
    zeros = draft.number(zero, narrow) if isinstance(zero, int) else _known(zero, draft, narrow)
    name = _symmetric(draft, self, (scale, zero), axis) if quant_min == -127 else self.name
    steps = draft.add("QuantizeLinear", name, scales, zeros, axis=axis)
    return draft.add("DequantizeLinear", steps, scales, zeros, axis=axis)


def _symmetric(draft: Draft, value: Value, steps: tuple[Any, Any], axis: int | None) -> str:
    """Return the name of a value with nothing below -127 steps, (scale, zero); ONNX itself would go on to -128.

    Weights are below where their scale leaves out rare great values. Raises TuneError for a value that is not known.
    """
    if value.known is None:
        raise refuse("symmetric steps of a value that changes")
    scale, zero = (_along(one, axis, value.rank) for one in steps)
    if bool((value.known / scale + zero > -127.5).all()):
        return value.name
    return draft.constant(value.known.clamp(min=scale * (-127 - zero)))


def _along(steps: Any, axis: int | None, rank: int) -> Any:
    """Return a scale or zero of each index of `axis` in the shape that goes with a value of `rank` dimensions."""
    if not isinstance(steps, Value):
        return steps
    assert steps.known is not None  # or `_known` would have refused it
    return steps.known if axis is None else steps.known.reshape([-1 if place == axis else 1 for place in range(rank)])


def _known(value: Any, draft: Draft, dtype: torch.dtype) -> str:
    if not isinstance(value, Value) or value.known is None:
        raise refuse("a scale that changes from call to call")
    return draft.constant(value.known.to(dtype))
