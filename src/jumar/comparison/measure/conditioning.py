"""Estimates by how much an operator may enlarge the error of an input: a rough condition number.

A factor by kind of operator, weighted by what the input contributes to the output. The factors are
rounded up from the worst growth seen on healthy pairs (a CNN with batch norm and a small GPT, other
kernels and thread counts, three steps), with a margin of at least 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jumar.comparison.measure.scales import accumulation_length, elements, greatest_of, rms_of
from jumar.comparison.model.calls import Call
from jumar.comparison.model.kinds import (
    COPIES,
    DIVIDING,
    ELEMENTWISE_LAYERS,
    EXACT,
    EXPONENTIAL,
    LINEAR,
    LINEAR_LAYERS,
    LOSSES,
    NORMS,
    SWITCHING_LAYERS,
    VIEWS,
    of,
)
from jumar.recording.schema import TensorRow

OF_MOVES, OF_LINEAR, OF_OTHERS, OF_MODULES = 2.0, 4.0, 16.0, 64.0
GREATEST = 1e6

OF_LAYERS = {
    **dict.fromkeys(ELEMENTWISE_LAYERS | LINEAR_LAYERS | SWITCHING_LAYERS, OF_LINEAR),
    **dict.fromkeys(NORMS | LOSSES, OF_OTHERS),
}
"""By class of module; any other may hold many calculations."""

_SHARES: dict[str, Callable[[Call], dict[str, float]]] = {}
"""Operator to what inputs contribute to the output, by the input's name."""


def amplifications(call: Call) -> dict[str, float]:
    """Return, for each input, to how much of the output's relative error its own may grow."""
    general = _general(call)
    factors = dict.fromkeys(call.inputs, general)
    shares = _SHARES.get(call.operator) if call.row.kind == "op" else None
    for name, share in shares(call).items() if shares is not None else ():
        if name in factors:
            factor = general * share
            factors[name] = factor if factor < GREATEST else GREATEST
    return factors


def _general(call: Call) -> float:
    operator = call.operator
    if call.row.kind != "op" or call.homes:  # a module, or a region of operators
        return OF_LAYERS.get(call.layer, OF_MODULES)
    if operator in VIEWS or operator in COPIES:
        return OF_MOVES
    if operator in EXACT or operator in LINEAR:
        return OF_LINEAR
    if operator in DIVIDING:
        return min(GREATEST, OF_LINEAR * max((_spread(tensor) for tensor in call.inputs.values()), default=1.0))
    if operator in EXPONENTIAL:
        greatest = max((greatest_of(tensor) for tensor in call.inputs.values()), default=1.0)
        return min(GREATEST, OF_LINEAR * max(1.0, greatest))
    return OF_OTHERS


def _spread(tensor: TensorRow) -> float:
    """Return how far the smallest element can lie below the root mean square."""
    if tensor.minimum is None or tensor.maximum is None or not tensor.l2:
        return 1.0
    smallest = 0.0 if tensor.minimum <= 0 <= tensor.maximum else min(abs(tensor.minimum), abs(tensor.maximum))
    return max(1.0, rms_of(tensor) / smallest) if smallest else GREATEST


def _rms(call: Call, position: int) -> float:
    return rms_of(call.inputs.get(f"input.{position}"))


def _of_output(call: Call) -> float:
    for tensor in call.outputs.values():
        return rms_of(tensor)
    return 0.0


@of(_SHARES, "add", "sub", "rsub", "lerp")
def _shares_of_sum(call: Call) -> dict[str, float]:
    first, second = rms_of(call.inputs.get("input.0")), rms_of(call.inputs.get("input.1"))
    whole = _of_output(call) or first + second
    return {"input.0": first / whole, "input.1": second / whole} if whole else {}


def _share_of_bias(call: Call, bias: int, first: int, second: int) -> dict[str, float]:
    product = math.sqrt(accumulation_length(call)) * _rms(call, first) * _rms(call, second)
    whole = _rms(call, bias) + product
    return {f"input.{bias}": _rms(call, bias) / whole} if whole else {}


@of(_SHARES, "addmm", "baddbmm")
def _shares_of_sum_and_product(call: Call) -> dict[str, float]:
    return _share_of_bias(call, 0, 1, 2)


@of(_SHARES, "convolution", "linear")
def _shares_of_layer(call: Call) -> dict[str, float]:
    return _share_of_bias(call, 2, 0, 1)


@of(_SHARES, "div", "true_divide")
def _shares_of_division(call: Call) -> dict[str, float]:
    return {"input.1": _spread(call.inputs["input.1"])} if "input.1" in call.inputs else {}


@of(_SHARES, "native_layer_norm", "native_batch_norm")
def _shares_of_norm(call: Call) -> dict[str, float]:
    bias = 3 if call.operator == "native_layer_norm" else 2
    whole = _of_output(call)
    shares = {f"input.{bias}": _rms(call, bias) / whole} if whole else {}
    if call.operator == "native_batch_norm":
        arguments = call.arguments()
        if arguments.get("training", arguments.get("train", True)):
            shares.update({"input.3": 0.0, "input.4": 0.0})  # running statistics: written, not read
    return shares


@of(_SHARES, "addcdiv", "addcmul")
def _shares_of_third_order(call: Call) -> dict[str, float]:
    """`a + value · b (/ or ·) c`: an error of b or c reaches the result in proportion to what it adds to a."""
    value = call.arguments().get("value", call.arguments().get("scalars", 1.0))
    value = abs(value) if isinstance(value, int | float) else 1.0
    whole, third = _of_output(call), call.inputs.get("input.2")
    if not whole or third is None or not elements(third):
        return {}
    factor = rms_of(third)
    if call.operator == "addcdiv":
        factor = _spread(third) / factor if factor else 1.0
    added = value * _rms(call, 1) * factor / whole
    return {"input.0": _rms(call, 0) / whole, "input.1": added, "input.2": added}
