"""What two correct devices may differ by: the error model behind every verdict.

For one operator and one output

    tolerance = rounding + amplification · (noise of the inputs)
    rounding  = eps(dtype) + eps(accumulation dtype) · (8 + 2·√K)      (0 for operators that only select or move)

- eps(dtype) is the machine epsilon of the coarser of the two sides' dtypes: one unit in the last
  place, so that bfloat16 against float32 is judged in bfloat16's units.
- K is the number of terms that are summed into one element. Rounding errors of a sum behave like a
  random walk, hence √K (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 4.2 and 2.8;
  the worst case is K, met in practice nowhere near). Half types accumulate in float32 on every
  device considered here, so their sums grow with float32's epsilon. The 8 covers transcendental
  functions, for which devices document errors of a few units in the last place.
- Errors are judged relative to the scale of the calculation, not only of its result: where terms
  cancel (the mean of a layer-norm's output, the gradient of a bias before a batch norm) the result is
  noise on every device and its relative error means nothing. `scale` gives the norm that the
  result would have if the terms had not cancelled.
- Amplification says how far an error of the inputs may grow (condition number, by kind of operator).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jumar.accuracy.calls import Call
from jumar.accuracy.canonical import COPIES, DIVIDING, EXACT, EXPONENTIAL, SELECTIVE, VIEWS, names
from jumar.recording.schema import TensorRow

EPSILON = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
}
"""Machine epsilon by dtype (IEEE 754, OCP FP8): the distance from 1 to the next number."""

STATISTICS_FLOOR = 2.0**-22
"""Devices sum the statistics themselves in another order, some in float32."""

LINEAR = names("add sub mul mm addmm bmm baddbmm linear matmul convolution sum mean lerp addcmul div true_divide")
MODULE_LENGTH, MODULE_AMPLIFICATION = 1 << 16, 64.0
"""A module is many operators: judged as a sum of this length, with errors growing by up to this."""
GREATEST_AMPLIFICATION = 1e6


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """What the outputs of one call may differ by."""

    length: float
    """K, the terms summed into one element of the output."""
    exact: bool
    """Equal inputs must give equal outputs."""
    selective: bool
    """A rounding difference may switch single elements."""


def epsilon(*dtypes: str) -> float:
    """Return the machine epsilon of the coarsest of the dtypes; 0 for integers and bool."""
    return max(EPSILON.get(dtype, 0.0) for dtype in dtypes)


def rounding(model: ErrorModel, output: TensorRow, target: TensorRow, autocast: str = "") -> float:
    """Return the relative error that one correct execution may have against another.

    `autocast` is the reduced dtype in which either side calculated, if any.
    """
    eps = epsilon(output.dtype, target.dtype)
    if eps == 0:
        return 0.0
    if model.exact:
        return eps if output.dtype != target.dtype else 0.0
    accumulated = min(eps, EPSILON["float32"]) if eps >= EPSILON["float32"] else eps
    return max(eps, epsilon(autocast)) + accumulated * (8.0 + 2.0 * math.sqrt(model.length))


def error_model(call: Call) -> ErrorModel:
    """Return the error model of a call, from its operator and shapes."""
    if call.row.kind != "op":
        return ErrorModel(MODULE_LENGTH, exact=False, selective=True)
    exact = call.operator in EXACT
    length = 1.0 if exact else accumulation_length(call)
    return ErrorModel(length, exact=exact, selective=call.operator in SELECTIVE)


def amplifications(call: Call) -> dict[str, float]:
    """Return, for each input, by what a relative error of it may grow to a relative error of the output.

    A condition number by kind of operator, weighted by what the input contributes to the output's scale.
    """
    general = _amplification(call)
    factors = dict.fromkeys(call.inputs, general)
    if call.row.kind != "op":
        return factors
    for name, share in _shares(call).items():
        if name in factors:
            factors[name] = min(GREATEST_AMPLIFICATION, general * share)
    return factors


def _shares(call: Call) -> dict[str, float]:
    """Return what an input contributes to the output where that is not all of it."""
    rms = [_rms(call.inputs.get(f"input.{i}")) for i in range(5)]
    match call.operator:
        case "add" | "sub" | "rsub" | "lerp":
            whole = _output_rms(call) or rms[0] + rms[1]
            return {f"input.{i}": max(rms[i] / whole, 0.0) for i in (0, 1)} if whole else {}
        case "addmm" | "baddbmm":
            whole = rms[0] + math.sqrt(accumulation_length(call)) * rms[1] * rms[2]
            return {"input.0": rms[0] / whole} if whole else {}
        case "convolution" | "linear":
            whole = rms[2] + math.sqrt(accumulation_length(call)) * rms[0] * rms[1]
            return {"input.2": rms[2] / whole} if whole else {}
        case "native_layer_norm" | "native_batch_norm":
            whole = _output_rms(call)
            bias = "input.3" if call.operator == "native_layer_norm" else "input.2"
            share = {bias: _rms(call.inputs.get(bias)) / whole} if whole else {}
            return share if call.operator == "native_layer_norm" else {**share, **_running_statistics(call)}
        case "div" | "true_divide":
            return {"input.1": _spread(call.inputs["input.1"])} if "input.1" in call.inputs else {}
        case "addcdiv" | "addcmul":
            return _third_order_shares(call, rms)
    return {}


def _running_statistics(call: Call) -> dict[str, float]:
    """A batch norm in training writes its running statistics and does not read them."""
    training = call.arguments().get("training", call.arguments().get("train", True))
    return {"input.3": 0.0, "input.4": 0.0} if training else {}


def _third_order_shares(call: Call, rms: list[float]) -> dict[str, float]:
    """`a + value · b (/ or ·) c`: an error of b or c reaches the result in proportion to what it adds to a."""
    arguments = call.arguments()
    value = arguments.get("value", arguments.get("scalars", 1.0))
    value = abs(value) if isinstance(value, int | float) else 1.0
    whole = _output_rms(call)
    if not whole or "input.2" not in call.inputs:
        return {}
    third = call.inputs["input.2"]
    factor = rms[2] if call.operator == "addcmul" else _spread(third) / rms[2] if rms[2] else 1.0
    added = value * rms[1] * factor / whole
    return {"input.0": rms[0] / whole, "input.1": added, "input.2": added}


def _output_rms(call: Call) -> float:
    return _rms(next(iter(call.outputs.values()), None))


def _amplification(call: Call) -> float:
    operator = call.operator
    if call.row.kind != "op":
        return MODULE_AMPLIFICATION
    if operator in VIEWS or operator in COPIES:
        return 2.0
    if operator in EXACT or operator in LINEAR:
        return 4.0
    if operator in DIVIDING:
        return min(GREATEST_AMPLIFICATION, 4.0 * max((_spread(t) for t in call.inputs.values()), default=1.0))
    if operator in EXPONENTIAL:
        greatest = max((_greatest(t) for t in call.inputs.values()), default=1.0)
        return min(GREATEST_AMPLIFICATION, 4.0 * max(1.0, greatest))
    return 16.0


def _greatest(tensor: TensorRow) -> float:
    if tensor.maximum is None or tensor.minimum is None:
        return 1.0
    return max(abs(tensor.maximum), abs(tensor.minimum))


def _spread(tensor: TensorRow) -> float:
    """Return how far the smallest element can lie below the root mean square."""
    if tensor.minimum is None or tensor.maximum is None or not tensor.l2:
        return 1.0
    smallest = 0.0 if tensor.minimum <= 0 <= tensor.maximum else min(abs(tensor.minimum), abs(tensor.maximum))
    rms = tensor.l2 / math.sqrt(math.prod(tensor.shape) or 1)
    return max(1.0, rms / smallest) if smallest else GREATEST_AMPLIFICATION


def accumulation_length(call: Call) -> float:
    """Return K: how many terms are summed into one element of the (largest sum among the) outputs."""
    shapes = {name: tensor.shape for name, tensor in call.inputs.items()}
    first, second = shapes.get("input.0", ()), shapes.get("input.1", ())
    match call.operator:
        case "mm" | "bmm" | "linear" | "matmul" | "dot" | "mv":
            return float(first[-1]) if first else 1.0
        case "addmm" | "baddbmm" | "addmv":
            return float(second[-1]) if second else 1.0
        case "convolution":
            return float(max(math.prod(second[1:]), 1))
        case "convolution_backward":
            weight = shapes.get("input.2", ())
            channels = first[1] if len(first) > 1 else 1
            return float(max(math.prod(weight) / max(weight[1:2] or (1,)), math.prod(first) / max(channels, 1)))
        case "scaled_dot_product_attention" | "scaled_dot_product_attention_backward":
            return float(sum(first[-2:])) if first else 1.0
        case "softmax" | "log_softmax" | "softmax_backward" | "log_softmax_backward" | "logsumexp":
            return float(max(first, default=1))
        case "embedding_dense_backward" | "index_put":
            return float(max(math.prod(second), 1))
    return _reduction_length(call)


def _reduction_length(call: Call) -> float:
    """Return the greatest ratio of the elements of an input to those of an output, at least 1."""
    greatest = max((math.prod(tensor.shape) for tensor in call.inputs.values()), default=1)
    smallest = min((math.prod(tensor.shape) for tensor in call.outputs.values() if math.prod(tensor.shape)), default=1)
    return max(1.0, greatest / smallest)


def scale(call: Call, output: str) -> float:
    """Return the L2 norm the output would have if no terms cancelled; 0 where only the result itself is known.

    From the statistics of the inputs; sums of K uncorrelated terms grow with √K.
    """
    tensor = call.outputs.get(output)
    if tensor is None or call.row.kind != "op":
        return 0.0
    n = math.prod(tensor.shape)
    rms = [_rms(call.inputs.get(f"input.{i}")) for i in range(7)]
    root = math.sqrt(n)
    index = int(output.rsplit(".", 1)[-1]) if output.rsplit(".", 1)[-1].isdigit() else 0
    match call.operator:
        case "mm" | "bmm" | "linear" | "matmul" | "dot" | "mv":
            return root * math.sqrt(accumulation_length(call)) * rms[0] * rms[1] + root * rms[2]
        case "addmm" | "baddbmm" | "addmv":
            return root * (rms[0] + math.sqrt(accumulation_length(call)) * rms[1] * rms[2])
        case "convolution":
            return root * (math.sqrt(accumulation_length(call)) * rms[0] * rms[1] + rms[2])
        case "convolution_backward":
            return _convolution_backward_scale(call, index, n, rms)
        case "add" | "sub" | "lerp" | "rsub":
            return root * (rms[0] + rms[1])
        case "addcmul":
            return root * (rms[0] + rms[1] * rms[2])
        case "sum":
            return _l2(call.inputs.get("input.0"))
        case "mean":
            return root * rms[0]
        case "native_batch_norm" | "native_layer_norm":
            return _norm_scale(call, index, root, rms)
        case "native_batch_norm_backward":
            return _l2(call.inputs.get("input.0")) * (rms[2] * rms[6] if index == 0 else 1.0)
        case "native_layer_norm_backward":
            return _l2(call.inputs.get("input.0")) * ((rms[5] or 1.0) * rms[4] if index == 0 else 1.0)
        case "softmax_backward" | "log_softmax_backward" | "embedding_dense_backward":
            return _l2(call.inputs.get("input.0"))
    return 0.0


def _norm_scale(call: Call, index: int, root: float, rms: list[float]) -> float:
    """Normalising subtracts a mean: with a mean far from zero the result is a small difference of big numbers."""
    if index == 1:
        return root * rms[0]
    if index != 0:
        return 0.0
    inverse = _rms(call.outputs.get("output.2"))
    return root * ((rms[1] or 1.0) * rms[0] * inverse + rms[2])


def _convolution_backward_scale(call: Call, index: int, n: int, rms: list[float]) -> float:
    gradient = call.inputs.get("input.0")
    weight = call.inputs.get("input.2")
    if gradient is None or weight is None:
        return 0.0
    channels = max(gradient.shape[1] if len(gradient.shape) > 1 else 1, 1)
    if index == 0:
        terms = math.prod(weight.shape) / max(weight.shape[1] if len(weight.shape) > 1 else 1, 1)
        return math.sqrt(n * terms) * rms[0] * rms[2]
    terms = math.prod(gradient.shape) / channels
    return math.sqrt(n * terms) * rms[0] * (rms[1] if index == 1 else 1.0)


def _l2(tensor: TensorRow | None) -> float:
    return tensor.l2 or 0.0 if tensor is not None else 0.0


def _rms(tensor: TensorRow | None) -> float:
    """Return the root mean square; 0 for a tensor that is absent or has no statistics."""
    if tensor is None or not tensor.l2:
        return 0.0
    return tensor.l2 / math.sqrt(math.prod(tensor.shape) or 1)


def origin(model: ErrorModel, output: TensorRow, target: TensorRow) -> str:
    """Return in words where the rounding part of a tolerance comes from."""
    dtypes = [dtype for dtype in dict.fromkeys((output.dtype, target.dtype)) if dtype in EPSILON]
    coarser = max(dtypes, key=lambda dtype: EPSILON[dtype], default="")
    if not coarser:
        return f"{output.dtype}: exact"
    if model.exact:
        return "an operator that only selects or moves values is exact" + (
            f", but for the cast to {coarser}" if len(dtypes) > 1 else ""
        )
    return f"eps({coarser}) = {EPSILON[coarser]:.1e}, sums of {model.length:.0f} terms"
