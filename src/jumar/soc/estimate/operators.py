"""The cost of one operator call: its class's kernels, what the framework inserts around them, and the host's part."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from jumar.soc.estimate import cube, moves
from jumar.soc.estimate.attention import attention
from jumar.soc.estimate.classes import AI_CPU_DTYPES, INTEGER_SORT, OperatorClass, classify
from jumar.soc.estimate.communication import collective_us
from jumar.soc.estimate.cost import Cost, Kernel
from jumar.soc.estimate.hardware import hardware
from jumar.soc.estimate.prices import Software, software
from jumar.soc.estimate.shapes import OperatorShape, TensorShape
from jumar.soc.estimate.units import Model, ai_cpu_kernel, num_bytes, vector_kernel
from jumar.soc.profiles import SocProfile

_STRIDED_IS_FINE = frozenset({"copy", "none"})
"""Classes that read strided tensors themselves."""
_CUBE = frozenset({"matmul", "matmul_grouped", "attention", "attention_backward"})
"""Classes that read a transposed matrix as it is."""
_CONVERSION = "TransData"


@functools.lru_cache(maxsize=65536)
def operator_cost(shape: OperatorShape, profile: SocProfile, soft: Software | None = None) -> Cost:
    """Return the estimate for one call on the chip; `soft` is what runs on it, a current torch_npu by default.

    Equal calls are estimated once. Operators that the class table lacks count as elementwise with two vector
    instructions an element.
    """
    soft = software(profile) if soft is None else soft
    model = Model(hardware(profile), soft)
    if shape.transfer:
        return _transfer(model, shape)
    found = classify(shape.name)
    if shape.is_view or found.kind == "none":
        return Cost(name=shape.name, host_us=soft.prices.host_view_us)
    if found.kind == "communication":
        return _communication(model, found, shape)
    if shape.on_host:
        return _on_host(model, shape)
    kernels = [
        *(moves.transdata(model, conversion) for conversion in shape.conversions if not conversion.is_result),
        *(moves.contiguous(model, tensor) for tensor in shape.inputs if _needs_contiguous(tensor, found)),
        *_kernels(model, found, _dense(shape, found)),
        *(moves.transdata(model, conversion) for conversion in shape.conversions if conversion.is_result),
    ]
    return Cost(
        name=shape.name, kernels=tuple(kernels), host_us=_host_us(model, len(kernels)), assumed=model.hardware.assumed
    )


def _needs_contiguous(tensor: TensorShape, found: OperatorClass) -> bool:
    if not tensor.run or found.kind in _STRIDED_IS_FINE:
        return False
    return not (tensor.transposed and found.kind in _CUBE)


def _dense(shape: OperatorShape, found: OperatorClass) -> OperatorShape:
    """Return the call with its inputs as they are once they have been made contiguous."""
    if found.kind in _STRIDED_IS_FINE or not any(tensor.run for tensor in shape.inputs):
        return shape
    return replace(shape, inputs=tuple(replace(tensor, run=0) if tensor.run else tensor for tensor in shape.inputs))


def _host_us(model: Model, num_kernels: int) -> float:
    prices = model.prices
    first = prices.host_us if model.software.is_aclnn else prices.host_graph_compiler_us
    return first + prices.host_kernel_us * max(0, num_kernels - 1)


def _transfer(model: Model, shape: OperatorShape) -> Cost:
    pinned = bool(shape.attribute("pinned", False))
    waits = shape.transfer == "device-to-host" or not shape.attribute("non_blocking", False)
    return Cost(
        name=shape.name,
        host_us=_host_us(model, 1),
        transfer_us=moves.transfer_us(model.prices, shape.transfer_bytes, pinned=pinned),
        waits=waits,
        assumed=model.hardware.assumed,
    )


def _on_host(model: Model, shape: OperatorShape) -> Cost:
    """Inputs to the host, the CPU's kernel, results back."""
    prices = model.prices
    into = sum(moves.transfer_us(prices, tensor.stored_bytes, pinned=False) for tensor in shape.inputs)
    back = sum(moves.transfer_us(prices, tensor.stored_bytes, pinned=False) for tensor in shape.outputs)
    elements = max((tensor.num_elements for tensor in (*shape.inputs, *shape.outputs)), default=0)
    return Cost(
        name=shape.name,
        host_us=_host_us(model, 1) + elements / prices.host_elements_per_us,
        transfer_us=into + back,
        waits=True,
        assumed=model.hardware.assumed,
    )


def _communication(model: Model, found: OperatorClass, shape: OperatorShape) -> Cost:
    size = num_bytes(shape.inputs or shape.outputs)
    kind = found.graph_type.removeprefix("hcom_").strip("_")
    time = collective_us(kind, size, shape.num_ranks)
    kernel = Kernel(
        type=found.graph_type,
        core="HCCL",
        duration_us=time,
        bound_by="link",
        inputs=shape.inputs,
        outputs=shape.outputs,
    )
    assumed = model.hardware.assumed
    if model.hardware.family != "A1":
        assumed = (*assumed, "links between devices: the first generation's")
    return Cost(name=shape.name, kernels=(kernel,), host_us=_host_us(model, 1), assumed=assumed)


def _kernels(model: Model, found: OperatorClass, shape: OperatorShape) -> Sequence[Kernel]:
    types = found.kernel_types(is_aclnn=model.software.is_aclnn)
    if not shape.inputs and not shape.outputs:
        return []
    if types[0] == _CONVERSION:
        return _own_conversion(model, shape)
    if _runs_on_ai_cpu(found, shape):
        return [ai_cpu_kernel(model, types[0], shape.inputs, shape.outputs, steps=max(1.0, found.instructions))]
    return _FORMULAS[found.kind](model, types, found, shape)


def _runs_on_ai_cpu(found: OperatorClass, shape: OperatorShape) -> bool:
    if found.kind == "ai_cpu":
        return True
    dtypes = {tensor.dtype for tensor in (shape.inputs or shape.outputs)[:1]}
    if found.kind == "sort":
        return bool(dtypes & (AI_CPU_DTYPES | INTEGER_SORT))
    return found.kind not in ("copy", "none") and bool(dtypes & AI_CPU_DTYPES)


def _own_conversion(model: Model, shape: OperatorShape) -> list[Kernel]:
    """A cast of format that the program asked for; nothing where the format stays."""
    if not shape.inputs or not shape.outputs or shape.inputs[0].format == shape.outputs[0].format:
        return []
    share = model.prices.transdata_share
    return [vector_kernel(model, _CONVERSION, shape.inputs[:1], shape.outputs[:1], share=share)]


Formula = Callable[[Model, tuple[str, ...], OperatorClass, OperatorShape], Sequence[Kernel]]


def _elementwise(model: Model, types: tuple[str, ...], found: OperatorClass, shape: OperatorShape) -> list[Kernel]:
    return [vector_kernel(model, types[0], shape.inputs, shape.outputs, instructions=found.instructions)]


def _two_passes(model: Model, types: tuple[str, ...], found: OperatorClass, shape: OperatorShape) -> list[Kernel]:
    """A normalization reads its large tensors to reduce them, and again to normalize. As two kernels, or in one."""
    large = _large(shape.inputs)
    if len(types) > 1:
        half = found.instructions / 2
        return [
            vector_kernel(model, types[0], large, [], instructions=half),
            vector_kernel(model, types[1], shape.inputs, shape.outputs, instructions=half),
        ]
    whole = num_bytes(shape.inputs) + num_bytes(shape.outputs)
    again = num_bytes(large) if not _row_fits(shape) else 0
    return [
        vector_kernel(
            model,
            types[0],
            shape.inputs,
            shape.outputs,
            instructions=found.instructions,
            moved_bytes=whole + again,
        )
    ]


def _row_fits(shape: OperatorShape) -> bool:
    """Whether what is reduced together (the last dimension) stays in a core: not for batch normalization."""
    return "batch_norm" not in shape.name and "group_norm" not in shape.name


def _large(tensors: Sequence[TensorShape]) -> list[TensorShape]:
    most = max((tensor.num_elements for tensor in tensors), default=0)
    return [tensor for tensor in tensors if tensor.num_elements == most]


def _foreach(model: Model, types: tuple[str, ...], found: OperatorClass, shape: OperatorShape) -> list[Kernel]:
    """One kernel for the whole list through aclnn; the older route runs one for each tensor of the first list."""
    tensors = shape.inputs or shape.outputs
    num_lists = max(1, int(shape.attribute("num_lists", 1)))
    per_list = max(1, len(tensors) // num_lists)
    writes = tensors[:per_list]
    if model.software.is_aclnn or found.graph_type.startswith("Apply"):
        return [vector_kernel(model, types[0], tensors, writes, instructions=found.instructions)]
    single = types[0].removeprefix("Foreach")
    return [
        vector_kernel(model, single, tensors[i::per_list][:num_lists], [writes[i]], instructions=found.instructions)
        for i in range(per_list)
    ]


def _written(model: Model, types: tuple[str, ...], found: OperatorClass, shape: OperatorShape) -> list[Kernel]:
    return [vector_kernel(model, types[0], (), shape.outputs or shape.inputs, instructions=found.instructions)]


def _recurrent(model: Model, types: tuple[str, ...], found: OperatorClass, shape: OperatorShape) -> list[Kernel]:
    """Each weight meets every time step and sequence once; the steps of one layer run one after the other."""
    data = shape.inputs[0]
    steps = data.shape[0] if len(data.shape) > 2 else 1
    batch = data.shape[-2] if len(data.shape) > 1 else 1
    kernels = []
    for weight in shape.inputs[1:]:
        if len(weight.shape) != 2 or weight.shape[0] <= batch:
            continue
        product = cube.Product(batch, weight.shape[1], weight.shape[0])
        one = cube.cube_kernels(model, types[0], product, [data, weight], shape.outputs[:1])[-1]
        kernels.append(replace(one, duration_us=one.duration_us * steps, cube_us=one.cube_us * steps))
    return kernels or _elementwise(model, types, found, shape)


_FORMULAS: dict[str, Formula] = {
    "elementwise": _elementwise,
    "softmax": _elementwise,
    "reduction": _elementwise,
    "pooling": _elementwise,
    "sort": _elementwise,
    "random": _written,
    "fill": _written,
    "foreach": _foreach,
    "normalization": _two_passes,
    "recurrent": _recurrent,
    "copy": lambda model, types, _, shape: moves.copy(model, types[0], shape),
    "gather": lambda model, types, _, shape: moves.gather(model, types[0], shape),
    "scatter": lambda model, types, _, shape: moves.scatter(model, types[0], shape),
    "matmul": lambda model, types, _, shape: cube.matmul(model, types[0], shape),
    "matmul_grouped": lambda model, types, _, shape: cube.grouped_matmul(model, types[0], shape),
    "convolution": lambda model, types, _, shape: cube.convolution(model, types[0], shape),
    "convolution_backward": lambda model, types, _, shape: cube.convolution_backward(model, types[0], shape),
    "attention": lambda model, types, _, shape: attention(model, types[0], shape),
    "attention_backward": lambda model, types, _, shape: attention(model, types[0], shape, backward=True),
}
