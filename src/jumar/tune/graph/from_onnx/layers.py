"""ONNX operators that are layers: convolutions, pools, normalisations, resizing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from jumar.tune.graph.from_onnx.call import Call, computes
from jumar.tune.model.errors import TuneError

_CONVOLUTIONS: dict[int, Callable[..., torch.Tensor]] = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
_TRANSPOSED: dict[int, Callable[..., torch.Tensor]] = {
    1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d,
}  # fmt: skip
_MAX_POOLS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d,
}  # fmt: skip
_AVERAGE_POOLS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d,
}  # fmt: skip
_ADAPTIVE: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.adaptive_avg_pool1d, 2: functional.adaptive_avg_pool2d, 3: functional.adaptive_avg_pool3d,
}  # fmt: skip


@computes("Conv")
def _conv(call: Call) -> torch.Tensor:
    source, weight = call.tensor(0), call.tensor(1)
    rank = source.dim() - 2
    strides, dilations = (call.attribute(name) or [1] * rank for name in ("strides", "dilations"))
    source, padding = _padded(call, source, list(weight.shape[2:]), strides, dilations, 0.0)
    return _of(_CONVOLUTIONS, rank, call)(
        source, weight, call.optional(2), list(strides), padding, list(dilations), call.attribute("group", 1)
    )


@computes("ConvTranspose")
def _conv_transpose(call: Call) -> torch.Tensor:
    source, weight = call.tensor(0), call.tensor(1)
    rank = source.dim() - 2
    strides, dilations = (list(call.attribute(name) or [1] * rank) for name in ("strides", "dilations"))
    extra = list(call.attribute("output_padding") or [0] * rank)
    begins, ends = _transposed_padding(call, source, list(weight.shape[2:]), strides, dilations, extra)
    # PyTorch cuts equally on both sides and adds at the end: cut the smaller side, then what is left of the other.
    cut = [min(pair) for pair in zip(begins, ends, strict=True)]
    made = _of(_TRANSPOSED, rank, call)(
        source, weight, call.optional(2), strides, cut, extra, call.attribute("group", 1), dilations
    )
    for axis, (begin, end, both) in enumerate(zip(begins, ends, cut, strict=True)):
        if begin - both or end - both:
            length = made.shape[axis + 2] - (begin - both) - (end - both)
            made = made.narrow(axis + 2, begin - both, length)
    return made


def _transposed_padding(
    call: Call, source: torch.Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Return what is cut from the beginning and the end of each dimension (ONNX operator ConvTranspose).

    Where the output must be larger than what is computed, `extra` grows.
    """
    rank = len(kernel)
    auto, shape = call.attribute("auto_pad", "NOTSET"), call.attribute("output_shape")
    if shape is None and auto in {"NOTSET", "VALID"}:
        pads = list(call.attribute("pads") or [0] * 2 * rank)
        return pads[:rank], pads[rank:]
    begins, ends = [], []
    for axis in range(rank):
        size = source.shape[axis + 2]
        wanted = shape[axis - rank] if shape is not None else size * strides[axis]
        missing = strides[axis] * (size - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - wanted
        total = max(missing, 0)
        small = total // 2
        begins.append(total - small if auto != "SAME_UPPER" else small)
        ends.append(total - begins[-1])
        extra[axis] += max(-missing, 0)
    return begins, ends


@computes("MaxPool")
def _max_pool(call: Call) -> torch.Tensor:
    if call.num_outputs > 1:
        raise TuneError(f"{call} also returns the places of its maxima, which is not converted so far.")
    source, kernel = call.tensor(0), list(call.attribute("kernel_shape"))
    rank = len(kernel)
    strides, dilations = (list(call.attribute(name) or [1] * rank) for name in ("strides", "dilations"))
    begins = [begin for begin, _ in _pads(call, list(source.shape[2:]), kernel, strides, dilations)]
    inside = [size + begin for size, begin in zip(source.shape[2:], begins, strict=True)]
    source, padding = _padded(call, source, kernel, strides, dilations, -math.inf, most=[size // 2 for size in kernel])
    ceil = bool(call.attribute("ceil_mode", 0))
    made = _of(_MAX_POOLS, rank, call)(source, kernel, strides, padding, dilations, ceil)
    for axis, (end, step) in enumerate(zip(inside, strides, strict=True), start=2):
        if ceil and made.shape[axis] > -(-end // step):  # no window begins in the padding behind
            made = made.narrow(axis, 0, -(-end // step))
    return made


@computes("AveragePool")
def _average_pool(call: Call) -> torch.Tensor:
    source, kernel = call.tensor(0), list(call.attribute("kernel_shape"))
    rank = len(kernel)
    strides = list(call.attribute("strides") or [1] * rank)
    if any(step != 1 for step in call.attribute("dilations") or []):
        raise TuneError(f"{call} has dilations, which is not converted so far.")
    ceil, counts = bool(call.attribute("ceil_mode", 0)), bool(call.attribute("count_include_pad", 0))
    pads = _pads(call, list(source.shape[2:]), kernel, strides, [1] * rank)
    pool = _of(_AVERAGE_POOLS, rank, call)
    if all(begin == end for begin, end in pads) and all(begin <= size // 2 for (begin, _), size in zip(pads, kernel)):  # noqa: B905 - one pad for each size
        return pool(source, kernel, strides, [begin for begin, _ in pads], ceil, counts)
    if ceil:
        raise TuneError(f"{call} has uneven pads and ceil_mode, which is not converted so far.")
    around = [size for pair in reversed(pads) for size in pair]
    summed = pool(functional.pad(source, around), kernel, strides)
    if counts:
        return summed
    inside = pool(functional.pad(torch.ones_like(source), around), kernel, strides)
    return summed / inside


@computes("GlobalAveragePool")
def _global_average_pool(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    rank = source.dim() - 2
    return _of(_ADAPTIVE, rank, call)(source, [1] * rank)


@computes("GlobalMaxPool")
def _global_max_pool(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    return torch.amax(source, list(range(2, source.dim())), keepdim=True)


@computes("BatchNormalization")
def _batch_norm(call: Call) -> torch.Tensor:
    # Before operator set 14 the number of outputs says so.
    if call.attribute("training_mode", 0) or (7 <= call.opset < 14 and call.num_outputs > 1):
        raise TuneError(f"{call} is in training mode; export the model for inference.")
    source, weight, bias, mean, variance = (call.tensor(place) for place in range(5))
    return functional.batch_norm(source, mean, variance, weight, bias, False, 0.0, call.attribute("epsilon", 1e-5))


@computes("InstanceNormalization")
def _instance_norm(call: Call) -> torch.Tensor:
    epsilon = call.attribute("epsilon", 1e-5)
    # Not the function of `functional`, which refuses a single pixel.
    return torch.instance_norm(call.tensor(0), call.tensor(1), call.tensor(2), None, None, True, 0.1, epsilon, True)


@computes("LayerNormalization")
def _layer_norm(call: Call) -> tuple[torch.Tensor, ...]:
    source, axis = call.tensor(0), call.attribute("axis", -1)
    shape = list(source.shape[axis % source.dim() :])
    weight, bias = (_shaped(one, shape) for one in (call.tensor(1), call.optional(2)))
    epsilon = call.attribute("epsilon", 1e-5)
    made = functional.layer_norm(source, shape, weight, bias, epsilon)
    if call.num_outputs == 1:
        return (made,)
    axes = list(range(axis % source.dim(), source.dim()))
    variance, mean = torch.var_mean(source, axes, correction=0, keepdim=True)
    return (made, mean, torch.rsqrt(variance + epsilon))[: call.num_outputs]


def _shaped(weight: torch.Tensor | None, shape: list[int]) -> torch.Tensor | None:
    return weight if weight is None or list(weight.shape) == shape else weight.expand(shape).contiguous()


@computes("RMSNormalization")
def _rms_norm(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", -1)
    shape = list(source.shape[axis % source.dim() :])
    return functional.rms_norm(source, shape, _shaped(call.tensor(1), shape), call.attribute("epsilon", 1e-5))


@computes("GroupNormalization")
def _group_norm(call: Call) -> torch.Tensor:
    source, weight, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    groups = call.attribute("num_groups")
    if weight.shape[0] != source.shape[1]:  # before operator set 21: one number a group
        weight, bias = (one.repeat_interleave(source.shape[1] // groups) for one in (weight, bias))
    return functional.group_norm(source, groups, weight, bias, call.attribute("epsilon", 1e-5))


@computes("LRN")
def _lrn(call: Call) -> torch.Tensor:
    alpha, beta, bias = (call.attribute(*one) for one in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    size = call.attribute("size")
    if size % 2 == 0:
        raise TuneError(
            f"{call} sums over {size} channels, one more behind the middle than before it, which PyTorch has the other "
            "way round; export the model with an odd size."
        )
    return functional.local_response_norm(call.tensor(0), size, alpha, beta, bias)


@computes("LpNormalization")
def _lp_norm(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", -1)
    norm: torch.Tensor = torch.linalg.vector_norm(source, call.attribute("p", 2), axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(source), source / norm)


def _padded(
    call: Call, source: torch.Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    value: float, most: Sequence[int] | None = None,
) -> tuple[torch.Tensor, list[int]]:  # fmt: skip
    """Return the source and the padding that an operator of PyTorch takes; uneven pads are added to the source."""
    pads = _pads(call, list(source.shape[2:]), kernel, strides, dilations)
    fits = most is None or all(begin <= limit for (begin, _), limit in zip(pads, most, strict=True))
    if fits and all(begin == end for begin, end in pads):
        return source, [begin for begin, _ in pads]
    around = [size for pair in reversed(pads) for size in pair]
    return functional.pad(source, around, "constant", value), [0] * len(kernel)


def _pads(
    call: Call, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the padding at the beginning and the end of each dimension (ONNX attributes auto_pad and pads)."""
    auto = call.attribute("auto_pad", "NOTSET")
    if auto in {"NOTSET", "VALID"}:
        pads = list(call.attribute("pads") or [0] * 2 * len(kernel)) if auto == "NOTSET" else [0] * 2 * len(kernel)
        return list(zip(pads[: len(kernel)], pads[len(kernel) :], strict=True))
    found = []
    for size, length, step, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // step) - 1) * step + (length - 1) * dilation + 1 - size, 0)
        small = total // 2
        found.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return found


def _of(table: dict[int, Callable[..., torch.Tensor]], rank: int, call: Call) -> Callable[..., torch.Tensor]:
    if rank not in table:
        raise TuneError(
            f"{call} works on {rank} spatial dimensions, which PyTorch does not have; 1 to 3 are converted."
        )
    return table[rank]
