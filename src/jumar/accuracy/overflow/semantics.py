"""What operators do with elements that are NaN or Inf, and which numbers are the ends of a type."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from jumar.accuracy.canonical import canonical_name, names
from jumar.recording.schema import CallRow, TensorRow

LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
"""Greatest finite number of a type (IEEE 754; bfloat16 has float32's exponent and 7 bits of mantissa)."""

SUSPICIOUS = (51200.0, 38400.0)
"""Magnitudes that Ascend's overflow guide names beside 65500 (65504) as signs of an overflow in float16."""

ABSORBS_NEGATIVE = names(
    "exp exp2 expm1 sigmoid softmax logsumexp logaddexp relu relu6 softplus elu celu selu clamp_min amax max maximum "
    "argmax threshold tanh erf hardtanh hardsigmoid max_pool2d_with_indices topk"
)
"""Of these a -Inf among the inputs makes no Inf and no NaN, unless nothing else is there to take."""

ABSORBS_BOTH = names(
    "sigmoid tanh erf atan sign signbit nan_to_num hardtanh hardsigmoid relu6 eq ne lt le gt ge isnan isinf isfinite "
    "isposinf isneginf logical_and logical_or logical_not any all argmax argmin"
)
"""Of these no Inf makes an Inf or a NaN."""

CHECKS = names(
    "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf any all allclose isclose equal is_nonzero item "
    "_local_scalar_dense _amp_foreach_non_finite_check_and_unscale_ _amp_foreach_non_finite_check_and_unscale"
)
"""These look at values and pass none on."""

SCALER_CHECK = "_amp_foreach_non_finite_check_and_unscale"

ELEMENTWISE = names(
    "add sub rsub mul div true_divide floor_divide fmod remainder pow neg abs exp exp2 expm1 log log2 log10 log1p "
    "sqrt rsqrt reciprocal square sin cos tan sinh cosh tanh sigmoid relu gelu silu elu celu selu leaky_relu softplus "
    "hardswish where masked_fill maximum minimum clamp clamp_min clamp_max threshold threshold_backward "
    "sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward leaky_relu_backward lerp addcmul addcdiv "
    "erf erfc dropout native_dropout _to_copy clone copy contiguous nan_to_num tril triu fill atan2 asin acos"
)
"""An element of the output depends on the elements of the inputs at its own place only (with broadcasting)."""

KEEPS_SIGN = names(
    "_to_copy clone copy contiguous masked_fill where add sub cat stack index index_select gather slice select expand "
    "repeat relu max amax maximum clamp view permute transpose t unsqueeze squeeze log_softmax alias detach lift_fresh"
)
"""An Inf of the inputs that is still one in the output has its sign kept. (`sub` keeps that of its first argument.)"""

EXP_LIMIT = {
    "exp": {"float16": 11.0899, "bfloat16": 88.7229, "float32": 88.7229, "float64": 709.783},
    "expm1": {"float16": 11.0899, "bfloat16": 88.7229, "float32": 88.7229, "float64": 709.783},
    "exp2": {"float16": 16.0, "bfloat16": 128.0, "float32": 128.0, "float64": 1024.0},
    "cosh": {"float16": 11.783, "bfloat16": 89.416, "float32": 89.416, "float64": 710.476},
    "sinh": {"float16": 11.783, "bfloat16": 89.416, "float32": 89.416, "float64": 710.476},
}
"""Greatest argument whose result is finite, by the output's type (the logarithm of `LARGEST`)."""

ATOMIC_ADDS = names(
    "_embedding_bag_backward _embedding_bag_dense_backward _index_put_impl convolution_backward "
    "embedding_dense_backward gather_backward grid_sampler_2d_backward grid_sampler_3d_backward index_add index_put "
    "index_reduce max_pool3d_with_indices_backward scatter_add scatter_reduce"
)
"""Operators whose kernels add to one place of memory from several cores (the emulated device has the same table)."""


def num_nonfinite(tensor: TensorRow) -> int:
    """Return the number of NaN and Inf elements; 0 where it was not recorded."""
    return (tensor.num_nan or 0) + (tensor.num_inf or 0)


def is_known(tensor: TensorRow) -> bool:
    """Return whether NaN and Inf elements were counted."""
    return tensor.num_nan is not None or tensor.num_inf is not None


def magnitude(tensor: TensorRow) -> float | None:
    """Return the greatest absolute value of the finite elements, None where there is none or it is not known."""
    if tensor.minimum is None or tensor.maximum is None:
        return None
    return max(abs(tensor.minimum), abs(tensor.maximum))


def num_elements(tensor: TensorRow) -> int:
    """Return the number of elements."""
    return math.prod(tensor.shape)


@lru_cache(maxsize=4096)
def operator_of(row_name: str) -> str:
    """Return the canonical name of an operator."""
    return canonical_name(row_name)


def literals(row: CallRow) -> list[float]:
    """Return the numbers among the arguments of a call, NaN and Inf included."""
    if not row.arguments:
        return []
    try:
        found = json.loads(row.arguments)
    except ValueError:
        return []
    return list(_numbers(found.values() if isinstance(found, dict) else [found]))


def _numbers(values: Any) -> Any:
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield _as_float(value)
        elif isinstance(value, str) and value.lower().lstrip("+-") in ("inf", "infinity", "nan"):
            yield float(value)
        elif isinstance(value, list):
            yield from _numbers(value)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer that no float reaches
        return math.inf if value > 0 else -math.inf


def is_atomic(row: CallRow) -> bool:
    """Return whether an overflow of this call counts as one of an atomic addition."""
    return row.kind == "op" and operator_of(row.name) in ATOMIC_ADDS


def limit_reached(tensor: TensorRow) -> float | None:
    """Return the value at the end of the tensor's type that it has among its elements, or None.

    In float16 everything from 65472 on counts (65500 as it is printed in four digits).
    """
    largest = LARGEST.get(tensor.dtype)
    if largest is None:
        return None
    bound = 65472.0 if tensor.dtype == "float16" else largest * (1 - 1e-7)
    return _first(value for value in (tensor.maximum, tensor.minimum) if value is not None and abs(value) >= bound)


def suspicious(tensor: TensorRow) -> float | None:
    """Return the magnitude of `SUSPICIOUS` at which a float16 tensor begins or ends, or None."""
    if tensor.dtype != "float16":
        return None
    return _first(value for value in (tensor.maximum, tensor.minimum) if value is not None and abs(value) in SUSPICIOUS)


def _first(values: Any) -> float | None:
    return next(iter(values), None)
