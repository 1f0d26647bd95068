"""How many terms an operator sums, and how big its result would be if they did not cancel.

Both from the shapes and statistics of one side; uncorrelated terms are assumed, so that a sum of K of
them has √K times the size of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jumar.accuracy.calls import Call
from jumar.recording.schema import TensorRow


def elements(tensor: TensorRow | None) -> int:
    """Return the number of elements; 0 for None."""
    return math.prod(tensor.shape) if tensor is not None else 0


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


_INPUTS = tuple(f"input.{position}" for position in range(8))


def _rms(call: Call, position: int) -> float:
    return rms_of(call.inputs.get(_INPUTS[position]))


def _extent(call: Call, position: int, axis: int) -> int:
    tensor = call.inputs.get(f"input.{position}")
    return tensor.shape[axis] if tensor is not None and len(tensor.shape) > abs(axis) - (axis < 0) else 1


def _length_of_convolution(call: Call) -> float:
    weight = call.inputs.get("input.1")
    return max(1.0, elements(weight) / max(weight.shape[0], 1)) if weight is not None and weight.shape else 1.0


def _lengths_of_convolution_backward(call: Call) -> tuple[float, float]:
    """Return the terms of an element of the input's gradient and of the weight's gradient."""
    gradient, weight = call.inputs.get("input.0"), call.inputs.get("input.2")
    of_input = elements(weight) / max(_extent(call, 2, 1), 1)
    of_weight = elements(gradient) / max(_extent(call, 0, 1), 1)
    return max(1.0, of_input), max(1.0, of_weight)


def _length_of_attention(call: Call) -> float:
    first = call.inputs.get("input.0")
    return float(sum(first.shape[-2:])) if first is not None else 1.0


def _length_of_softmax(call: Call) -> float:
    first = call.inputs.get("input.0")
    return float(max(first.shape, default=1)) if first is not None else 1.0


def _length_of_scatter(call: Call) -> float:
    return float(max(elements(call.inputs.get("input.1")), 1))


def _length_of_reduction(call: Call) -> float:
    """Return the greatest ratio of the elements of an input to those of an output, at least 1."""
    greatest = max([math.prod(tensor.shape) for tensor in call.inputs.values()], default=1)
    smallest = min([n for tensor in call.outputs.values() if (n := math.prod(tensor.shape))], default=1)
    return max(1.0, greatest / smallest)


_LENGTHS: dict[str, Callable[[Call], float]] = {
    **dict.fromkeys(("mm", "bmm", "linear", "matmul", "dot", "mv"), lambda call: float(_extent(call, 0, -1))),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), lambda call: float(_extent(call, 1, -1))),
    "convolution": _length_of_convolution,
    "convolution_backward": lambda call: max(_lengths_of_convolution_backward(call)),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "scaled_dot_product_attention_backward"),
        _length_of_attention,
    ),
    **dict.fromkeys(
        ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "logsumexp"),
        _length_of_softmax,
    ),
    **dict.fromkeys(("embedding_dense_backward", "index_put"), _length_of_scatter),
}


def accumulation_length(call: Call) -> float:
    """Return K: how many terms are summed into one element of the (longest summed) output."""
    return _LENGTHS.get(call.operator, _length_of_reduction)(call)


def _scale_of_product(call: Call, _index: int, n: int) -> float:
    product = math.sqrt(accumulation_length(call)) * _rms(call, 0) * _rms(call, 1)
    return math.sqrt(n) * (product + _rms(call, 2))


def _scale_of_sum_and_product(call: Call, _index: int, n: int) -> float:
    product = math.sqrt(accumulation_length(call)) * _rms(call, 1) * _rms(call, 2)
    return math.sqrt(n) * (_rms(call, 0) + product)


def _scale_of_convolution_backward(call: Call, index: int, n: int) -> float:
    of_input, of_weight = _lengths_of_convolution_backward(call)
    if index == 0:
        return math.sqrt(n * of_input) * _rms(call, 0) * _rms(call, 2)
    return math.sqrt(n * of_weight) * _rms(call, 0) * (_rms(call, 1) if index == 1 else 1.0)


def _scale_of_norm(call: Call, index: int, n: int) -> float:
    """Normalising subtracts a mean: where it is far from zero, the result is a small difference of big numbers."""
    if index == 1:
        return math.sqrt(n) * _rms(call, 0)
    if index != 0:
        return 0.0
    weight, bias = (2, 3) if call.operator == "native_layer_norm" else (1, 2)
    inverse = rms_of(call.outputs.get("output.2"))
    return math.sqrt(n) * ((_rms(call, weight) or 1.0) * _rms(call, 0) * inverse + _rms(call, bias))


def _scale_of_norm_backward(call: Call, index: int, _n: int) -> float:
    """The gradient's mean and its part along the output are subtracted; of the parameters, it is summed."""
    gradient = l2_of(call.inputs.get("input.0"))
    if index != 0:
        return gradient
    weight, inverse = (5, 4) if call.operator == "native_layer_norm_backward" else (2, 6)
    return gradient * (_rms(call, weight) or 1.0) * _rms(call, inverse)


def _scale_of_first(call: Call, _index: int, _n: int) -> float:
    return l2_of(call.inputs.get("input.0"))


_SCALES: dict[str, Callable[[Call, int, int], float]] = {
    **dict.fromkeys(("mm", "bmm", "linear", "matmul", "dot", "mv", "convolution"), _scale_of_product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _scale_of_sum_and_product),
    "convolution_backward": _scale_of_convolution_backward,
    **dict.fromkeys(
        ("add", "sub", "rsub", "lerp"),
        lambda call, _index, n: math.sqrt(n) * (_rms(call, 0) + _rms(call, 1)),
    ),
    "addcmul": lambda call, _index, n: math.sqrt(n) * (_rms(call, 0) + _rms(call, 1) * _rms(call, 2)),
    "mean": lambda call, _index, n: math.sqrt(n) * _rms(call, 0),
    **dict.fromkeys(("native_layer_norm", "native_batch_norm"), _scale_of_norm),
    **dict.fromkeys(("native_layer_norm_backward", "native_batch_norm_backward"), _scale_of_norm_backward),
    **dict.fromkeys(("sum", "softmax_backward", "log_softmax_backward", "embedding_dense_backward"), _scale_of_first),
}


def scale(call: Call, output: str) -> float:
    """Return the L2 norm the output would have if no terms cancelled; 0 where only the result itself is known."""
    tensor = call.outputs.get(output)
    of_operator = _SCALES.get(call.operator) if call.row.kind == "op" else None
    if tensor is None or of_operator is None:
        return 0.0
    index = output.rsplit(".", 1)[-1]
    return of_operator(call, int(index) if index.isdigit() else 0, elements(tensor))
