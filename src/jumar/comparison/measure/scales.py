"""Estimates how many terms an operator sums, and how large the result would be if no terms cancelled.

Both from the shapes and statistics of one side; uncorrelated terms are assumed, so that a sum of K of
them has √K times the size of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import PRODUCTS, SOFTMAXES, of
from jumar.recording.schema import TensorRow


def elements(tensor: TensorRow | None) -> int:
    """Return the number of elements; 0 for None."""
    return math.prod(tensor.shape) if tensor is not None else 0


def num_nonfinite(tensor: TensorRow) -> int:
    """Return the number of NaN and Inf elements; 0 where it was not recorded."""
    return (tensor.num_nan or 0) + (tensor.num_inf or 0)


def is_known(tensor: TensorRow) -> bool:
    """Return whether NaN and Inf elements were counted."""
    return tensor.num_nan is not None or tensor.num_inf is not None


def l2_of(tensor: TensorRow | None) -> float:
    """Return the recorded L2 norm; 0 when it is not known."""
    return tensor.l2 or 0.0 if tensor is not None else 0.0


def rms_of(tensor: TensorRow | None) -> float:
    """Return the root mean square of the elements; 0 when it is not known."""
    if tensor is None or not tensor.l2:
        return 0.0
    return tensor.l2 / math.sqrt(math.prod(tensor.shape) or 1)


def greatest_of(tensor: TensorRow) -> float:
    """Return the greatest absolute value; 1 when it is not known."""
    if tensor.maximum is None or tensor.minimum is None:
        return 1.0
    high, low = abs(tensor.maximum), abs(tensor.minimum)
    return high if high > low else low


_LENGTHS: dict[str, Callable[[Call], float]] = {}
"""Operator to the terms that it sums, but for matrix products and reductions."""

_SCALES: dict[str, Callable[[Call, int, int], float]] = {}
"""Operator to the scale of an output, by the output's place and number of elements."""

_INPUTS = tuple(f"input.{position}" for position in range(8))


def _rms(call: Call, position: int) -> float:
    return rms_of(call.inputs.get(_INPUTS[position]))


def _extent(call: Call, position: int, axis: int) -> int:
    tensor = call.inputs.get(f"input.{position}")
    return tensor.shape[axis] if tensor is not None and len(tensor.shape) > abs(axis) - (axis < 0) else 1


@of(_LENGTHS, "convolution")
def _length_of_convolution(call: Call) -> float:
    weight = call.inputs.get("input.1")
    return max(1.0, elements(weight) / max(weight.shape[0], 1)) if weight is not None and weight.shape else 1.0


def _lengths_of_convolution_backward(call: Call) -> tuple[float, float]:
    """Return the terms of an element of the input's gradient and of the weight's gradient."""
    gradient, weight = call.inputs.get("input.0"), call.inputs.get("input.2")
    of_input = elements(weight) / max(_extent(call, 2, 1), 1)
    of_weight = elements(gradient) / max(_extent(call, 0, 1), 1)
    return max(1.0, of_input), max(1.0, of_weight)


@of(_LENGTHS, "convolution_backward")
def _length_of_convolution_backward(call: Call) -> float:
    return max(_lengths_of_convolution_backward(call))


@of(_LENGTHS, "scaled_dot_product_attention", "scaled_dot_product_attention_backward")
def _length_of_attention(call: Call) -> float:
    first = call.inputs.get("input.0")
    return float(sum(first.shape[-2:])) if first is not None else 1.0


@of(_LENGTHS, *SOFTMAXES, "logsumexp")
def _length_of_softmax(call: Call) -> float:
    first = call.inputs.get("input.0")
    return float(max(first.shape, default=1)) if first is not None else 1.0


@of(_LENGTHS, "embedding_dense_backward", "index_put")
def _length_of_scatter(call: Call) -> float:
    return float(max(elements(call.inputs.get("input.1")), 1))


def _length_of_reduction(call: Call) -> float:
    """Return the greatest ratio of the elements of an input to those of an output, at least 1."""
    greatest = max([math.prod(tensor.shape) for tensor in call.inputs.values()], default=1)
    smallest = min([n for tensor in call.outputs.values() if (n := math.prod(tensor.shape))], default=1)
    return max(1.0, greatest / smallest)


def _first_factor(operator: str) -> int:
    """Return the position of the first factor of a matrix product; a summand comes before it (`addmm`, `baddbmm`)."""
    return 1 if operator.lstrip("_").startswith(("add", "badd")) else 0


def accumulation_length(call: Call) -> float:
    """Return K: how many terms are summed into one element of the (longest summed) output."""
    operator = call.operator
    if operator in PRODUCTS:
        return float(_extent(call, _first_factor(operator), -1))
    return _LENGTHS.get(operator, _length_of_reduction)(call)


@of(_SCALES, "convolution")
def _scale_of_product(call: Call, _index: int, n: int) -> float:
    first = _first_factor(call.operator)
    product = math.sqrt(accumulation_length(call)) * _rms(call, first) * _rms(call, first + 1)
    return math.sqrt(n) * (product + _rms(call, 0 if first else 2))


@of(_SCALES, "convolution_backward")
def _scale_of_convolution_backward(call: Call, index: int, n: int) -> float:
    of_input, of_weight = _lengths_of_convolution_backward(call)
    if index == 0:
        return math.sqrt(n * of_input) * _rms(call, 0) * _rms(call, 2)
    return math.sqrt(n * of_weight) * _rms(call, 0) * (_rms(call, 1) if index == 1 else 1.0)


@of(_SCALES, "native_layer_norm", "native_batch_norm")
def _scale_of_norm(call: Call, index: int, n: int) -> float:
    """Normalising subtracts a mean: where it is far from zero, the result is a small difference of big numbers."""
    if index == 1:
        return math.sqrt(n) * _rms(call, 0)
    if index != 0:
        return 0.0
    weight, bias = (2, 3) if call.operator == "native_layer_norm" else (1, 2)
    inverse = rms_of(call.outputs.get("output.2"))
    return math.sqrt(n) * ((_rms(call, weight) or 1.0) * _rms(call, 0) * inverse + _rms(call, bias))


@of(_SCALES, "native_layer_norm_backward", "native_batch_norm_backward")
def _scale_of_norm_backward(call: Call, index: int, _n: int) -> float:
    """The gradient's mean and its part along the output are subtracted; of the parameters, it is summed."""
    gradient = l2_of(call.inputs.get("input.0"))
    if index != 0:
        return gradient
    weight, inverse = (5, 4) if call.operator == "native_layer_norm_backward" else (2, 6)
    return gradient * (_rms(call, weight) or 1.0) * _rms(call, inverse)


@of(_SCALES, "add", "sub", "rsub", "lerp")
def _scale_of_sum(call: Call, _index: int, n: int) -> float:
    return math.sqrt(n) * (_rms(call, 0) + _rms(call, 1))


@of(_SCALES, "addcmul")
def _scale_of_sum_and_product(call: Call, _index: int, n: int) -> float:
    return math.sqrt(n) * (_rms(call, 0) + _rms(call, 1) * _rms(call, 2))


@of(_SCALES, "mean")
def _scale_of_mean(call: Call, _index: int, n: int) -> float:
    return math.sqrt(n) * _rms(call, 0)


@of(_SCALES, "sum", "softmax_backward", "log_softmax_backward", "embedding_dense_backward")
def _scale_of_first(call: Call, _index: int, _n: int) -> float:
    return l2_of(call.inputs.get("input.0"))


def scale(call: Call, output: str) -> float:
    """Return the L2 norm the output would have if no terms cancelled; 0 where only the result itself is known."""
    tensor = call.outputs.get(output)
    if tensor is None or call.row.kind != "op":
        return 0.0
    of_operator = _scale_of_product if call.operator in PRODUCTS else _SCALES.get(call.operator)
    index = output.rsplit(".", 1)[-1]
    return of_operator(call, int(index) if index.isdigit() else 0, elements(tensor)) if of_operator else 0.0
