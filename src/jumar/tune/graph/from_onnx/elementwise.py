"""ONNX operators on each element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from jumar.tune.graph.from_onnx.call import HANDLERS, Call, computes, dtype_of
from jumar.tune.model.errors import TuneError

_ONE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Log": torch.log,
    "Sqrt": torch.sqrt, "Erf": torch.erf, "Neg": torch.neg, "Abs": torch.abs, "Reciprocal": torch.reciprocal,
    "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round, "Sign": torch.sign, "Sin": torch.sin,
    "Cos": torch.cos, "Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos, "Atan": torch.atan,
    "Sinh": torch.sinh, "Cosh": torch.cosh, "Softplus": functional.softplus, "Softsign": functional.softsign,
    "Not": torch.logical_not, "IsNaN": torch.isnan, "HardSwish": functional.hardswish, "Mish": functional.mish,
    "BitwiseNot": torch.bitwise_not, "Asinh": torch.asinh, "Acosh": torch.acosh, "Atanh": torch.atanh,
}  # fmt: skip
_TWO: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Equal": torch.eq, "Greater": torch.gt, "Less": torch.lt,
    "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le, "And": torch.logical_and, "Or": torch.logical_or,
    "Xor": torch.logical_xor, "BitwiseXor": torch.bitwise_xor, "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
}  # fmt: skip


def _one(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Call], torch.Tensor]:
    return lambda call: function(call.tensor(0))


def _two(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[Call], torch.Tensor]:
    return lambda call: function(call.tensor(0), call.tensor(1))


HANDLERS.update({name: _one(function) for name, function in _ONE.items()})
HANDLERS.update({name: _two(function) for name, function in _TWO.items()})


@computes("Div")
def _div(call: Call) -> torch.Tensor:
    left, right = call.tensor(0), call.tensor(1)
    if left.dtype.is_floating_point:
        return torch.div(left, right)
    return torch.div(left, right, rounding_mode="trunc")


@computes("Mod")
def _mod(call: Call) -> torch.Tensor:
    return (torch.fmod if call.attribute("fmod", 0) else torch.remainder)(call.tensor(0), call.tensor(1))


@computes("BitShift")
def _bit_shift(call: Call) -> torch.Tensor:
    value, by, is_left = call.tensor(0), call.tensor(1), call.attribute("direction") == "LEFT"
    if value.dtype == torch.uint8:
        return torch.bitwise_left_shift(value, by) if is_left else torch.bitwise_right_shift(value, by)
    # PyTorch shifts no wider unsigned numbers; the bits of int64 are shifted in their place.
    if value.dtype == torch.uint64:
        return _shifted(value.view(torch.int64), by.view(torch.int64), is_left).view(torch.uint64)
    last = torch.iinfo(value.dtype).max
    return (_shifted(value.to(torch.int64), by.to(torch.int64), is_left) & last).to(value.dtype)


def _shifted(bits: torch.Tensor, by: torch.Tensor, is_left: bool) -> torch.Tensor:
    """Return the 64 bits of integers shifted by 0 to 63 places; zeros come in on both sides."""
    if is_left:
        return torch.bitwise_left_shift(bits, by)
    signs = torch.bitwise_right_shift(torch.full_like(bits, torch.iinfo(torch.int64).min), by) << 1
    return torch.bitwise_right_shift(bits, by) & ~signs


@computes("Pow")
def _pow(call: Call) -> torch.Tensor:
    base = call.tensor(0)
    exponent = call.inputs[1]
    if isinstance(exponent, np.ndarray) and exponent.size == 1 and exponent.ndim <= base.dim():
        value = float(exponent.reshape(-1)[0])
        return torch.pow(base, int(value) if value.is_integer() else value).to(base.dtype)
    return torch.pow(base, call.tensor(1)).to(base.dtype)


@computes("Max", "Min", "Sum", "Mean")
def _several(call: Call) -> torch.Tensor:
    join = {"Max": torch.maximum, "Min": torch.minimum}.get(call.operator, torch.add)
    found = call.tensor(0)
    for place in range(1, len(call.inputs)):
        found = join(found, call.tensor(place))
    return found / len(call.inputs) if call.operator == "Mean" else found


@computes("Clip")
def _clip(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    bounds = [
        call.known(place).reshape(-1)[0] if call.has(place) else call.attribute(name)
        for place, name in ((1, "min"), (2, "max"))
    ]
    if bounds == [None, None]:
        return source
    is_whole = not source.is_floating_point()  # float has not every integer of 64 bits
    low, high = (None if bound is None else int(bound) if is_whole else float(bound) for bound in bounds)
    return torch.clamp(source, low, high)


@computes("Cast")
def _cast(call: Call) -> torch.Tensor:
    return call.tensor(0).to(dtype_of(call.attribute("to")))


@computes("CastLike")
def _cast_like(call: Call) -> torch.Tensor:
    return call.tensor(0).to(call.tensor(1).dtype)


@computes("LeakyRelu")
def _leaky_relu(call: Call) -> torch.Tensor:
    return functional.leaky_relu(call.tensor(0), call.attribute("alpha", 0.01))


@computes("Elu")
def _elu(call: Call) -> torch.Tensor:
    return functional.elu(call.tensor(0), call.attribute("alpha", 1.0))


@computes("Celu")
def _celu(call: Call) -> torch.Tensor:
    return functional.celu(call.tensor(0), call.attribute("alpha", 1.0))


@computes("Selu")
def _selu(call: Call) -> torch.Tensor:
    alpha = call.attribute("alpha", 1.67326319217681884765625)
    gamma = call.attribute("gamma", 1.05070102214813232421875)
    return torch.mul(functional.elu(call.tensor(0), alpha), gamma)


@computes("HardSigmoid")
def _hard_sigmoid(call: Call) -> torch.Tensor:
    alpha, beta = call.attribute("alpha", 0.2), call.attribute("beta", 0.5)
    return torch.clamp(call.tensor(0) * alpha + beta, 0.0, 1.0)


@computes("ThresholdedRelu")
def _thresholded_relu(call: Call) -> torch.Tensor:
    return functional.threshold(call.tensor(0), call.attribute("alpha", 1.0), 0.0)


@computes("PRelu")
def _prelu(call: Call) -> torch.Tensor:
    source, slope = call.tensor(0), call.tensor(1)
    return torch.where(source < 0, source * slope, source)


@computes("Gelu")
def _gelu(call: Call) -> torch.Tensor:
    return functional.gelu(call.tensor(0), approximate=call.attribute("approximate", "none"))


@computes("Swish")
def _swish(call: Call) -> torch.Tensor:
    source, alpha = call.tensor(0), call.attribute("alpha", 1.0)
    return functional.silu(source) if alpha == 1.0 else source * torch.sigmoid(alpha * source)


@computes("IsInf")
def _is_inf(call: Call) -> torch.Tensor:
    found, source = torch.isinf(call.tensor(0)), call.tensor(0)
    if not call.attribute("detect_negative", 1):
        found = found & (source > 0)
    return found if call.attribute("detect_positive", 1) else found & (source < 0)


@computes("DequantizeLinear")
def _dequantize(call: Call) -> torch.Tensor:
    source, scale = call.tensor(0), call.tensor(1)
    shape, wide = _along(call, source, scale), torch.promote_types(scale.dtype, torch.float32)
    if call.has(2) and not source.is_floating_point():  # the zero of an eight-bit float is 0
        source = source.to(torch.int32) - call.tensor(2).to(torch.int32).reshape(shape)
    # 16 bits hold no integer beyond 65504, which biases reach.
    return (source.to(wide) * scale.reshape(shape).to(wide)).to(scale.dtype)


@computes("QuantizeLinear")
def _quantize(call: Call) -> torch.Tensor:
    source, scale = call.tensor(0), call.tensor(1)
    kind = call.tensor(2).dtype if call.has(2) else dtype_of(call.attribute("output_dtype") or 2)  # 2: UINT8
    if kind.is_floating_point:
        raise TuneError(f"{call} makes {kind}, which is not converted so far.")
    shape, limits = _along(call, source, scale), torch.iinfo(kind)
    made = torch.round(source / scale.reshape(shape))
    if call.has(2):
        made = made + call.tensor(2).reshape(shape).to(made.dtype)
    return torch.clamp(made, limits.min, limits.max).to(kind)


def _along(call: Call, source: torch.Tensor, scale: torch.Tensor) -> list[int]:
    """Return the shape in which one scale a tensor or a channel is multiplied. Raises TuneError for blocks."""
    if scale.numel() == 1:
        return [1] * source.dim()
    axis = call.attribute("axis", 1) % source.dim()
    if scale.dim() != 1 or call.attribute("block_size", 0):
        raise TuneError(f"{call} has a scale for each block, which is not converted so far.")
    return [scale.shape[0] if place == axis else 1 for place in range(source.dim())]


@computes("Where")
def _where(call: Call) -> torch.Tensor:
    return torch.where(call.tensor(0), call.tensor(1), call.tensor(2))


@computes("Identity")
def _identity(call: Call) -> torch.Tensor:
    return call.tensor(0)


@computes("Dropout")
def _dropout(call: Call) -> tuple[torch.Tensor, ...]:
    if call.has(2) and call.number(2):
        raise TuneError(f"{call} is in training mode; export the model for inference.")
    source = call.tensor(0)
    return (source, torch.ones_like(source, dtype=torch.bool))[: call.num_outputs]
