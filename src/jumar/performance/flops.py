"""Floating-point operations of one operator, from its shapes.

The formulas are those of `torch.utils.flop_counter` (PyTorch 2.13): a multiply-add counts two, and
only matrix products, convolutions and attention are counted. Everything else moves bytes rather than
computing, and has None. One difference: that module counts the weight gradient of a grouped
convolution as if it had one group, so its figure there is `groups` times too high; ours is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jumar.performance.operators import argument, base_name, num_elements
from jumar.recording.schema import CallRow

Shape = tuple[int, ...]
Formula = Callable[[CallRow], int]


def flops(row: CallRow) -> int | None:
    """Return the floating-point operations of `row`, or None when its operator has no formula or lacks shapes."""
    formula = _FORMULAS.get(base_name(row.name))
    if formula is None:
        return None
    try:
        return formula(row)
    except (IndexError, ValueError):
        return None


def _mm(row: CallRow, first: int = 0) -> int:
    """(M, K) by (K, N): 2·M·K·N; `first` is the position of the left matrix."""
    left, right = row.inputs[first].shape, row.inputs[first + 1].shape
    return 2 * left[0] * left[1] * right[1]


def _bmm(row: CallRow, first: int = 0) -> int:
    """(B, M, K) by (B, K, N): 2·B·M·K·N."""
    left, right = row.inputs[first].shape, row.inputs[first + 1].shape
    return 2 * left[0] * left[1] * left[2] * right[2]


def _linear(row: CallRow) -> int:
    """(…, K) by the weight (N, K): 2·…·K·N."""
    return 2 * num_elements(row.inputs[0].shape) * row.inputs[1].shape[0]


def _convolution(row: CallRow) -> int:
    data, weight, out = row.inputs[0].shape, row.inputs[1].shape, row.outputs[0].shape
    return _convolution_product(data, weight, out, bool(argument(row, "transposed")))


def _convolution_product(data: Shape, weight: Shape, out: Shape, transposed: bool) -> int:
    """2 · batch · positions · weight elements; a position is one of the output, of the input when transposed.

    The weight is (C_out, C_in / groups, kernel…), so groups are counted by its shape.
    """
    positions = num_elements((data if transposed else out)[2:])
    return 2 * data[0] * positions * num_elements(weight)


def _convolution_backward(row: CallRow) -> int:
    """The forward's product once for the gradient of the input, once for that of the weight."""
    grad, data, weight = (tensor.shape for tensor in row.inputs[:3])
    mask = argument(row, "output_mask")
    wanted = sum(map(bool, mask[:2])) if isinstance(mask, list) else 2
    return wanted * _convolution_product(data, weight, grad, bool(argument(row, "transposed")))


def _attention(row: CallRow) -> int:
    """Query (B, H, S_q, D), key (B, H, S_k, D), value (B, H, S_k, D_v): two products."""
    query, key, value = (tensor.shape for tensor in row.inputs[:3])
    return 2 * query[0] * query[1] * query[2] * key[2] * (query[3] + value[3])


def _attention_backward(row: CallRow) -> int:
    """The scores again, then the gradients of scores, value, query and key: five products."""
    query, key, value = (tensor.shape for tensor in row.inputs[1:4])
    pairs = 2 * query[0] * query[1] * query[2] * key[2]
    return pairs * (3 * query[3] + 2 * value[3])


_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)

_FORMULAS: dict[str, Formula] = {
    "mm": _mm,
    "addmm": partial(_mm, first=1),
    "linear": _linear,
    "bmm": _bmm,
    "baddbmm": partial(_bmm, first=1),
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
    "convolution_backward_overrideable": _convolution_backward,
    **dict.fromkeys(_ATTENTION, _attention),
    **{f"{name}_backward": _attention_backward for name in _ATTENTION},
}
