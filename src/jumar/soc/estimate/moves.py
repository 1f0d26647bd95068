"""Moving data: changes of format, contiguous copies, gathers and scatters, copies between host and device."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jumar.operators import functional_name, is_in_place
from jumar.soc.estimate.cost import Kernel, Role
from jumar.soc.estimate.prices import Prices
from jumar.soc.estimate.shapes import Conversion, OperatorShape, TensorShape
from jumar.soc.estimate.units import Model, ai_cpu_kernel, vector_kernel

BLOCK_BYTES = 32
"""What the memory moves at a time; rows of another length cannot be moved as they are on the older kernels."""


def transdata(model: Model, conversion: Conversion) -> Kernel:
    """Return the kernel of a change of format."""
    source = TensorShape(conversion.shape, conversion.dtype, conversion.source_format)
    target = TensorShape(conversion.shape, conversion.dtype, conversion.target_format)
    share = model.prices.transdata_share
    return vector_kernel(model, "TransData", [source], [target], share=share, role="transdata")


def contiguous(model: Model, tensor: TensorShape, kernel_type: str = "", role: Role = "contiguous") -> Kernel:
    """Return the kernel that makes a strided tensor contiguous.

    On AI Core runs shorter than `strided_burst_bytes` waste the burst; the older adapter uses the AI CPU
    ("PTCopy", "AsStrided"), which moves elements one by one, or GatherV2 over the sliced dimension, which is
    taken to be the second.
    """
    target = TensorShape(tensor.shape, tensor.dtype, tensor.format)
    if model.software.strided_copy == "GATHER":
        row = math.prod(tensor.shape[2:])
        rows = row if row > 1 and tensor.run % row == 0 else tensor.run
        return _gather(model, kernel_type or "GatherV2", [tensor], target, rows, 2 * target.stored_bytes, role)
    if model.software.strided_copy == "AI_CPU":
        return ai_cpu_kernel(model, kernel_type or "AsStrided", [tensor], [target], role=role)
    share = strided_share(model.prices, tensor.run * tensor.item_bytes)
    return vector_kernel(model, kernel_type or "ViewCopy", [tensor], [target], share=share, role=role)


def strided_share(prices: Prices, run_bytes: int) -> float:
    """Return what a strided access with runs of this many bytes gets of the memory's rate."""
    share = min(1.0, run_bytes / prices.strided_burst_bytes) if run_bytes else 1.0
    return prices.memory_share * max(prices.strided_share, share)


def copy(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernel of a copy on the device: strided where a tensor is, a Cast where the dtype changes."""
    sources = [tensor for tensor in shape.inputs if tensor.num_elements]
    strided = next((tensor for tensor in (*sources, *shape.outputs) if tensor.run), None)
    casts = bool(sources and shape.outputs and sources[-1].dtype != shape.outputs[0].dtype)
    if strided is not None and kernel_type in ("ViewCopy", "Cast"):
        kernels = [contiguous(model, strided, role="operator")]
        return [*kernels, vector_kernel(model, "Cast", sources[-1:], shape.outputs)] if casts else kernels
    name = "Cast" if casts and kernel_type in ("ViewCopy", "Cast") else kernel_type
    if name == "Cast" and not casts:
        name = "TensorMove"
    inputs = sources[-1:] if kernel_type in ("ViewCopy", "Cast") else sources
    return [vector_kernel(model, name, inputs, shape.outputs)]


def gather(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernel of a gather: `index_select`, `embedding`, `gather`, `index`.

    What it moves is its result, read and written in rows. Older kernels move rows that are no multiple of
    32 bytes one element at a time. An index of booleans is first turned into positions, on the AI CPU.
    """
    outputs, inputs = shape.outputs, shape.inputs
    if not outputs:
        return []
    masks = [tensor for tensor in inputs[1:] if tensor.dtype in ("bool", "uint8")]
    kernels = [ai_cpu_kernel(model, "NonZero", [mask], []) for mask in masks]
    row = row_elements(shape)
    moved = 2 * outputs[0].stored_bytes + sum(tensor.stored_bytes for tensor in inputs[1:])
    return [*kernels, _gather(model, kernel_type, inputs, outputs[0], row, moved)]


def _gather(
    model: Model,
    kernel_type: str,
    inputs: Sequence[TensorShape],
    output: TensorShape,
    row: int,
    moved_bytes: int,
    role: Role = "operator",
) -> Kernel:
    """Return the kernel that moves `output` in rows of `row` elements."""
    soft = model.software
    row_bytes = row * output.item_bytes
    scalar = soft.unaligned_gather == "scalar" and row_bytes % BLOCK_BYTES != 0
    return vector_kernel(
        model,
        kernel_type,
        inputs,
        [output],
        moved_bytes=moved_bytes,
        scalar_elements=output.num_elements if scalar else 0,
        share=strided_share(model.prices, max(BLOCK_BYTES, row_bytes)) if soft.gathers_waste_bursts else None,
        role=role,
    )


def scatter(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernels of a scatter: the target is copied or in place, then the updates are added or written."""
    if not shape.inputs:
        return []
    updates = shape.inputs[-1] if len(shape.inputs) > 1 else shape.inputs[0]
    tensors = [*shape.inputs]
    if model.software.scatter_add == "AI_CPU":
        rate = model.prices.ai_cpu_scatter_elements_per_us
        return [ai_cpu_kernel(model, kernel_type, [updates], shape.outputs, elements_per_us=rate)]
    row_bytes = max(1, row_elements(shape)) * updates.item_bytes
    in_place = is_in_place(shape.name)
    moved = 3 * updates.stored_bytes + (0 if in_place else 2 * sum(tensor.stored_bytes for tensor in shape.outputs[:1]))
    share = strided_share(model.prices, max(BLOCK_BYTES, row_bytes))
    return [vector_kernel(model, kernel_type, tensors, shape.outputs, instructions=2, moved_bytes=moved, share=share)]


def row_elements(shape: OperatorShape) -> int:
    """Return the elements that a gather or scatter moves together: those behind the indexed dimension.

    `dim` is an attribute; `embedding` indexes the first dimension, `gather` and `index` single elements
    unless the index has fewer dimensions.
    """
    base = functional_name(shape.name)
    source = shape.inputs[0].shape if shape.inputs else ()
    if base in ("gather", "take", "scatter", "scatter_add", "scatter_reduce", "take_along_dim"):
        return 1
    rank = max(len(source), 1)
    dim = int(shape.attribute("dim", 0)) % rank
    if base in ("index", "_unsafe_index", "index_put", "_index_put_impl", "_unsafe_index_put"):
        dim = max(0, min(rank, len(shape.inputs) - 1) - 1)
    return math.prod(source[dim + 1 :])


def transfer_us(prices: Prices, num_bytes: int, *, pinned: bool) -> float:
    """Return the time of one copy between host and device."""
    share = 1.0 if pinned else prices.pageable_share
    return prices.bus_latency_us + num_bytes / (prices.bus_bytes_per_us * share)
