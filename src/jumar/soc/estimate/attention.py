"""Fused attention: two products on the cube, the softmax between them on the vector unit, nothing written between."""

from __future__ import annotations

import math

from jumar.soc.estimate.cost import Bound, Core, Kernel
from jumar.soc.estimate.cube import Product, product_us
from jumar.soc.estimate.hardware import VECTOR_BYTES
from jumar.soc.estimate.shapes import OperatorShape, TensorShape
from jumar.soc.estimate.units import Model, finished, num_bytes, vector_kernel

_SOFTMAX_INSTRUCTIONS = 10
_PRODUCTS_BACKWARD = 5
"""Scores again, then the gradients of value, scores, query and key."""


def attention(model: Model, kernel_type: str, shape: OperatorShape, *, backward: bool = False) -> list[Kernel]:
    """Return the kernel of fused attention, or of its backward.

    Query, key and value are the first three tensors (four for backward: the gradient is one of them) in
    BNSD, BSND, BSH or SBH order, told by the attributes `input_layout` and `head_num`. A causal
    mask (`is_causal`, or `sparse_mode` 2 or 3) halves the products.
    """
    if len(shape.inputs) < 3:
        return [vector_kernel(model, kernel_type, shape.inputs, shape.outputs)]
    first = _query_position(shape, backward)
    query, key = shape.inputs[first], shape.inputs[first + 1]
    batch, length_q, head = _geometry(query, shape)
    length_k = _geometry(key, shape)[1]
    share = 0.5 if shape.attribute("is_causal", False) or shape.attribute("sparse_mode", 0) in (2, 3) else 1.0
    products = _PRODUCTS_BACKWARD if backward else 2
    one_us, cores = product_us(model, Product(length_q, head, length_k, batch), query.dtype, query.item_bytes)
    chip = model.hardware
    scores = batch * length_q * length_k * 4  # float32 between the products
    working_set = num_bytes(shape.inputs) + num_bytes(shape.outputs)
    times: dict[Bound, float] = {
        "cube": one_us * products * share,
        "vector": scores / VECTOR_BYTES * _SOFTMAX_INSTRUCTIONS * share / (chip.num_vector_cores * chip.frequency_mhz),
        model.level(working_set): model.memory_us(working_set, working_set, model.prices.memory_share),
    }
    core: Core = "MIX_AIC" if chip.is_split else "AI_CORE"
    return [finished(model, kernel_type, core, times, shape.inputs, shape.outputs, cores)]


def _query_position(shape: OperatorShape, backward: bool) -> int:
    aten_backward = backward and shape.name.startswith("aten::")
    return 1 if aten_backward and len(shape.inputs) > 3 else 0


def _geometry(tensor: TensorShape, shape: OperatorShape) -> tuple[int, int, int]:
    """Return (batch times heads, length, head size)."""
    sizes = tensor.shape
    layout = str(shape.attribute("input_layout", "BNSD"))
    heads = int(shape.attribute("head_num", 1) or 1)
    if len(sizes) == 4:
        return (
            (sizes[0] * sizes[2], sizes[1], sizes[3]) if layout == "BSND" else (sizes[0] * sizes[1], sizes[2], sizes[3])
        )
    if len(sizes) == 3 and layout == "TND":
        return sizes[1], sizes[0], sizes[2]
    if len(sizes) == 3:
        length, batch = (sizes[0], sizes[1]) if layout == "SBH" else (sizes[1], sizes[0])
        return batch * heads, length, max(1, sizes[2] // heads)
    return math.prod(sizes[:-2]) if len(sizes) > 2 else 1, sizes[-2] if len(sizes) > 1 else 1, sizes[-1] if sizes else 1
