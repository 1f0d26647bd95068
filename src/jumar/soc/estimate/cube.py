"""The matrix unit: products, convolutions and their backward, as tiles of 16 x 16 x 16.

Formulas: cycles are blocks of M, K and N, each rounded up (github.com/hicann/ge `tbe_info/estimator`; that
counts neither cores nor memory, which are added here). A product is cut into base tiles; the time is the
best over the sizes that the accumulators hold (the vendor's tiling banks, github.com/hicann/ops-nn MatMulV3,
mostly hold 128 x 128, 128 x 256 and 256 x 128), each the slower of computing and of reading its operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.operators import base_name, flops
from jumar.soc.estimate.cost import Bound, Kernel
from jumar.soc.estimate.shapes import BLOCK, OperatorShape, TensorShape, ceil_div, padded
from jumar.soc.estimate.units import Model, finished, num_bytes, vector_kernel

_SIDES = (1, 2, 4, 8, 16, 32, 64)
_TILES = tuple((rows, columns) for rows in _SIDES for columns in _SIDES if rows * columns <= 128)
"""Base tiles in blocks of 16, rows and columns: what fits into the accumulators (128 KiB of float32)."""


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` products of (M, K) by (K, N)."""

    m: int
    k: int
    n: int
    batch: int = 1
    reuse: int = 1
    """How often each element of the left operand is used once it is in a core: a convolution's kernel size."""

    @property
    def macs(self) -> int:
        """Multiply-adds, without padding."""
        return self.batch * self.m * self.k * self.n


def product_us(model: Model, product: Product, dtype: str, item_bytes: int) -> tuple[float, int]:
    """Return the microseconds the cube takes, reading its operands from L2 included, and the cores it uses."""
    chip = model.hardware
    c0 = 32 if item_bytes == 1 else BLOCK
    m1, k1, n1 = ceil_div(product.m, BLOCK), ceil_div(product.k, c0), ceil_div(product.n, BLOCK)
    per_block_us = 1.0 / (chip.frequency_mhz * chip.cube_ratio(dtype) * (BLOCK / c0) * model.prices.cube_share)
    best, best_cores = math.inf, 1
    for rows, columns in _TILES:
        tiles = ceil_div(m1, rows) * ceil_div(n1, columns) * product.batch
        split_k = max(1, min(chip.num_cube_cores // tiles, k1)) if tiles else 1
        rounds = ceil_div(tiles * split_k, chip.num_cube_cores)
        compute = rounds * rows * columns * ceil_div(k1, split_k) * per_block_us
        operand_bytes = tiles * (rows / product.reuse + columns) * BLOCK * k1 * c0 * item_bytes
        time = max(compute, operand_bytes / chip.l2_bytes_per_us)
        if time < best:
            best, best_cores = time, min(tiles * split_k, chip.num_cube_cores)
    return best, best_cores


def cube_dtype(model: Model, dtype: str, *, convolution: bool) -> str:
    """Return the precision the cube really runs an operand of `dtype` at."""
    soft = model.software
    if dtype == "float32":
        if soft.casts_float32:
            return "float16"
        return "hf32" if (soft.allow_hf32_convolution if convolution else soft.allow_hf32_matmul) else "float32"
    return dtype if dtype in model.hardware.cube_dtypes else "float16"


def cube_kernels(
    model: Model,
    kernel_type: str,
    product: Product,
    inputs: Sequence[TensorShape],
    outputs: Sequence[TensorShape],
    *,
    convolution: bool = False,
) -> list[Kernel]:
    """Return the kernel of a product, and before and after it the casts of a chip whose cube has no float32."""
    dtype = inputs[0].dtype if inputs else "float16"
    runs_as = cube_dtype(model, dtype, convolution=convolution)
    casts = runs_as == "float16" and dtype not in ("float16", "int8", "uint8")
    before, after = [], []
    own_inputs, own_outputs = list(inputs), list(outputs)
    if casts:
        own_inputs = [_as_float16(tensor) for tensor in inputs]
        own_outputs = [_as_float16(tensor) for tensor in outputs]
        before = [_cast(model, wide, half) for wide, half in zip(inputs, own_inputs, strict=True) if wide != half]
        after = [_cast(model, half, wide) for wide, half in zip(outputs, own_outputs, strict=True) if wide != half]
    item_bytes = own_inputs[0].item_bytes if own_inputs else 2
    compute_us, cores = product_us(model, product, runs_as, item_bytes)
    working_set = num_bytes(own_inputs) + num_bytes(own_outputs)
    share = model.prices.memory_share * cores / model.hardware.num_cube_cores
    times: dict[Bound, float] = {
        "cube": compute_us,
        model.level(working_set): model.memory_us(working_set, working_set, share),
    }
    main = finished(model, kernel_type, "AI_CORE", times, own_inputs, own_outputs, cores)
    return [*before, main, *after]


def _as_float16(tensor: TensorShape) -> TensorShape:
    if tensor.dtype not in ("float32", "bfloat16", "float64"):
        return tensor
    return TensorShape(tensor.shape, "float16", tensor.format, tensor.run, tensor.transposed)


def _cast(model: Model, source: TensorShape, target: TensorShape) -> Kernel:
    return vector_kernel(model, "Cast", [source], [target], role="cast")


def matmul(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernels of `mm`, `addmm`, `bmm`, `linear` and similar operators."""
    product, operands = matmul_product(shape)
    if product is None:
        return [vector_kernel(model, kernel_type, shape.inputs, shape.outputs)]
    return cube_kernels(model, kernel_type, product, operands, shape.outputs)


def matmul_product(shape: OperatorShape) -> tuple[Product | None, list[TensorShape]]:
    """Return the product of a matrix operator, with its operands first; None when the shapes are not one's."""
    tensors = list(shape.inputs)
    found = flops.product(shape.name, [tensor.shape for tensor in tensors])
    if found is None:
        return None, tensors
    if "add" in base_name(shape.name) and len(tensors) > 2:  # `addmm` and similar: the summand is no operand
        tensors = [*tensors[1:3], tensors[0], *tensors[3:]]
    return Product(found.m, found.k, found.n, found.batch), tensors


def grouped_matmul(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernel of a grouped product: every row of the first operand meets one expert's weight."""
    if len(shape.inputs) < 2 or len(shape.inputs[1].shape) < 2:
        return [vector_kernel(model, kernel_type, shape.inputs, shape.outputs)]
    left, weight = shape.inputs[0].shape, shape.inputs[1].shape
    product = Product(math.prod(left[:-1]), left[-1], weight[-1])
    return cube_kernels(model, kernel_type, product, shape.inputs, shape.outputs)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution as products over blocks of channels.

    Groups of fewer than 16 channels share a block, with zeros between them: a depthwise convolution computes
    16 times what it needs. `positions` are those of the output (of the input where it is transposed).
    """

    positions: int
    kernel: int
    channels_in: int
    channels_out: int
    blocks: int

    @classmethod
    def of(
        cls, data: tuple[int, ...], weight: tuple[int, ...], out: tuple[int, ...], groups: int, transposed: bool
    ) -> Convolution:
        """Read the shapes; the weight is (C_out, C_in / groups, kernel…), transposed (C_in, C_out / groups, …)."""
        positions = data[0] * math.prod((data if transposed else out)[2:])
        in_group, out_group = weight[1], weight[0] // max(groups, 1)
        together = max(1, min(groups, BLOCK // max(in_group, 1)))
        blocks = ceil_div(groups, together)
        return cls(positions, math.prod(weight[2:]), together * in_group, together * out_group, blocks)

    def forward(self) -> Product:
        """Return the product that computes the output."""
        inner = padded(self.channels_in, BLOCK) * self.kernel
        return Product(self.positions, inner, self.channels_out, self.blocks, self.kernel)

    def input_gradient(self) -> Product:
        """Return the product that computes the input's gradient."""
        inner = padded(self.channels_out, BLOCK) * self.kernel
        return Product(self.positions, inner, self.channels_in, self.blocks, self.kernel)

    def weight_gradient(self) -> Product:
        """Return the product that computes the weight's gradient: the sum runs over the positions."""
        rows = padded(self.channels_in, BLOCK) * self.kernel
        return Product(rows, self.positions, self.channels_out, self.blocks, self.kernel)


def convolution(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernels of a convolution."""
    if len(shape.inputs) < 2 or not shape.outputs:
        return [vector_kernel(model, kernel_type, shape.inputs, shape.outputs)]
    data, weight = shape.inputs[:2]
    groups = _groups(shape)
    product = _read(shape, data, weight, shape.outputs[0]).forward()
    name = _convolution_type(kernel_type, data, weight, groups)
    return cube_kernels(model, name, product, shape.inputs, shape.outputs, convolution=True)


def convolution_backward(model: Model, kernel_type: str, shape: OperatorShape) -> list[Kernel]:
    """Return the kernels of a convolution's backward: one for the input's gradient, one for the weight's."""
    if len(shape.inputs) < 3:
        return [vector_kernel(model, kernel_type, shape.inputs, shape.outputs)]
    grad, data, weight = shape.inputs[:3]
    mask = tuple(shape.attribute("output_mask", (True, True, False)))
    read = _read(shape, data, weight, grad)
    name = "DepthwiseConv2DBackprop" if _is_depthwise(data, weight, _groups(shape)) else kernel_type
    kernels: list[Kernel] = []
    if mask[0]:
        result = TensorShape(data.shape, data.dtype, data.format)
        product = read.input_gradient()
        kernels += cube_kernels(model, f"{name}Input", product, [grad, weight], [result], convolution=True)
    if mask[1]:
        result = TensorShape(weight.shape, weight.dtype, weight.format)
        product = read.weight_gradient()
        kernels += cube_kernels(model, f"{name}Filter", product, [grad, data], [result], convolution=True)
    if len(mask) > 2 and mask[2]:
        kernels.append(vector_kernel(model, "BiasAddGrad", [grad], [TensorShape((grad.shape[1],), grad.dtype)]))
    return kernels


def _read(shape: OperatorShape, data: TensorShape, weight: TensorShape, out: TensorShape) -> Convolution:
    transposed = bool(shape.attribute("transposed", False))
    return Convolution.of(data.shape, weight.shape, out.shape, _groups(shape), transposed)


def _groups(shape: OperatorShape) -> int:
    return int(shape.attribute("groups", 1))


def _is_depthwise(data: TensorShape, weight: TensorShape, groups: int) -> bool:
    return groups > 1 and weight.shape[1] == 1 and data.shape[1] == groups


def _convolution_type(kernel_type: str, data: TensorShape, weight: TensorShape, groups: int) -> str:
    if _is_depthwise(data, weight, groups):
        return "DepthwiseConv2D"
    return "Conv3D" if len(weight.shape) == 5 else kernel_type
