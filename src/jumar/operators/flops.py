"""Floating-point operations of an operator from its shapes. One set of formulas for every room.

The formulas are those of `torch.utils.flop_counter` (PyTorch 2.13): a multiply-add counts two; matrix products,
convolutions and attention are counted. Other operators move bytes rather than compute, and have None. One difference:
that module counts the weight gradient of a grouped convolution as if it had one group; here the groups count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jumar.operators.names import canonical_name, functional_name

Shape = Sequence[int]

_WITH_SUMMAND = frozenset({"addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"})
_MATRICES = _WITH_SUMMAND | {"mm", "bmm", "matmul", "mv", "dot", "vdot", "_int_mm", "_scaled_mm", "npu_bmmV2"}
_MATRICES |= {"npu_quant_matmul", "npu_weight_quant_batchmatmul"}
_LINEAR = frozenset({"linear", "npu_linear", "mkldnn_linear"})


class Product(NamedTuple):
    """`batch` products of (M, K) by (K, N)."""

    batch: int
    m: int
    k: int
    n: int

    @property
    def flops(self) -> int:
        """2·batch·M·K·N."""
        return 2 * self.batch * self.m * self.k * self.n


def product(name: str, inputs: Sequence[Shape]) -> Product | None:
    """Return the product that a matrix operator computes; None for another operator or for shapes that are none.

    `inputs` are the shapes of the tensor arguments, in order.
    """
    base = functional_name(name)
    if base in _LINEAR:
        return _linear(inputs)
    if base not in _MATRICES:
        return None
    operands = inputs[1:3] if base in _WITH_SUMMAND and len(inputs) > 2 else inputs[:2]
    if len(operands) < 2 or not operands[0] or not operands[1]:
        return None
    left, right = operands
    rows, columns = left[-2] if len(left) > 1 else 1, right[-1] if len(right) > 1 else 1
    batch = max(math.prod(left[:-2]), math.prod(right[:-2]))
    return Product(batch, rows, left[-1], columns)


def flops(
    name: str,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape] = (),
    arguments: Mapping[str, Any] | None = None,
) -> int | None:
    """Return the floating-point operations of a call; None where there is no formula or a shape is missing.

    `inputs` and `outputs` are the shapes of the tensors, in order. `transposed` and `output_mask` of `arguments` count.
    """
    found = product(name, inputs)
    if found is not None:
        return found.flops
    formula = _FORMULAS.get(_formula_name(name))
    if formula is None:
        return None
    try:
        return formula(inputs, outputs, arguments or {})
    except (IndexError, ValueError):
        return None


def convolution_flops(data: Shape, weight: Shape, out: Shape, *, transposed: bool = False) -> int:
    """Return 2 · batch · positions · weight elements; a position is one of the output, of the input when transposed.

    The weight is (C_out, C_in / groups, kernel…), so its shape counts the groups.
    """
    positions = math.prod((data if transposed else out)[2:])
    return 2 * data[0] * positions * math.prod(weight)


def _formula_name(name: str) -> str:
    base = functional_name(name)
    if base.startswith("conv_transpose"):
        return "conv_transpose"
    if base in ("conv1d", "conv2d", "conv3d"):
        return "convolution"
    return canonical_name(base)


def _linear(inputs: Sequence[Shape]) -> Product | None:
    """(…, K) by the weight (N, K)."""
    if len(inputs) < 2 or not inputs[0] or not inputs[1]:
        return None
    return Product(1, math.prod(inputs[0][:-1]), inputs[0][-1], inputs[1][0])


def _convolution(inputs: Sequence[Shape], outputs: Sequence[Shape], arguments: Mapping[str, Any]) -> int:
    return convolution_flops(inputs[0], inputs[1], outputs[0], transposed=bool(arguments.get("transposed")))


def _transposed(inputs: Sequence[Shape], outputs: Sequence[Shape], _: Mapping[str, Any]) -> int:
    return convolution_flops(inputs[0], inputs[1], outputs[0] if outputs else (), transposed=True)


def _convolution_backward(inputs: Sequence[Shape], _: Sequence[Shape], arguments: Mapping[str, Any]) -> int:
    """The forward's product once for the gradient of the input, once for that of the weight."""
    grad, data, weight = inputs[:3]
    mask = arguments.get("output_mask")
    wanted = sum(map(bool, mask[:2])) if isinstance(mask, list | tuple) else 2
    return wanted * convolution_flops(data, weight, grad, transposed=bool(arguments.get("transposed")))


def _attention(inputs: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, Any]) -> int:
    """Query (B, H, S_q, D), key (B, H, S_k, D), value (B, H, S_k, D_v): two products."""
    query, key, value = inputs[:3]
    return 2 * query[0] * query[1] * query[2] * key[2] * (query[3] + value[3])


def _attention_backward(inputs: Sequence[Shape], _: Sequence[Shape], __: Mapping[str, Any]) -> int:
    """The scores again, then the gradients of scores, value, query and key: five products."""
    query, key, value = inputs[1:4]
    return 2 * query[0] * query[1] * query[2] * key[2] * (3 * query[3] + 2 * value[3])


_FORMULAS = {
    "convolution": _convolution,
    "conv_transpose": _transposed,
    "convolution_backward": _convolution_backward,
    "scaled_dot_product_attention": _attention,
    "scaled_dot_product_attention_backward": _attention_backward,
}
