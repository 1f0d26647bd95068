"""Convolutions, pooling, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from jumar.tune.engines.onnx.draft import Draft, Value, listed, operator, refuse


@operator("conv1d", "conv2d", "conv3d", "convolution")
def _convolution(
    draft: Draft, input: Value, weight: Value, bias: Value | None = None, *, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, transposed: bool = False, output_padding: Any = 0, groups: int = 1, **_: Any,
) -> str:  # fmt: skip
    num = weight.rank - 2
    if transposed:
        return _transposed(draft, input, weight, bias, stride, padding, dilation, output_padding, groups)
    steps, holes = listed(stride, num), listed(dilation, num)
    pads = _pads_of(padding, list(weight.shape[2:]), holes) if isinstance(padding, str) else listed(padding, num) * 2
    with_batch, shape = _with_batch(draft, input, num)
    made = draft.add(
        "Conv", with_batch, *_weights(weight, bias), strides=steps, pads=pads, dilations=holes, group=groups,
        kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip
    return made if shape else draft.reshape(made, draft.out[0].shape)


def _weights(weight: Value, bias: Value | None) -> list[str]:
    return [weight.name] if bias is None else [weight.name, bias.name]


def _with_batch(draft: Draft, value: Value, num: int) -> tuple[str, bool]:
    """Return an image with its batch dimension, and whether it had one."""
    has_batch = value.rank == num + 2
    return (value.name if has_batch else draft.reshape(value.name, [1, *value.shape])), has_batch


def _pads_of(padding: str, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    total = [step * (size - 1) if padding == "same" else 0 for size, step in zip(kernel, dilation, strict=True)]
    before = [size // 2 for size in total]
    return [*before, *(size - half for size, half in zip(total, before, strict=True))]


@operator("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    draft: Draft, input: Value, weight: Value, bias: Value | None = None, *, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> str:  # fmt: skip
    return _transposed(draft, input, weight, bias, stride, padding, dilation, output_padding, groups)


def _transposed(
    draft: Draft, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any, extra: Any,
    groups: int,
) -> str:  # fmt: skip
    num = weight.rank - 2
    with_batch, had = _with_batch(draft, x, num)
    made = draft.add(
        "ConvTranspose", with_batch, *_weights(weight, bias), strides=listed(stride, num),
        pads=listed(padding, num) * 2, dilations=listed(dilation, num), group=groups,
        output_padding=listed(extra, num), kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip
    return made if had else draft.reshape(made, draft.out[0].shape)


@operator("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(draft: Draft, self: Value, kernel_size: Any, *, name: str, **rest: Any) -> str:
    return _pooled(draft, self, kernel_size, name, **rest)


def _pooled(
    draft: Draft, self: Value, kernel_size: Any, name: str, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> str:  # fmt: skip
    num = int(name.removesuffix("d")[-1])
    kernel, pads = listed(kernel_size, num), listed(padding, num)
    with_batch, had = _with_batch(draft, self, num)
    made = draft.add(
        "MaxPool", with_batch, kernel_shape=kernel, strides=listed(stride, num) if stride not in ((), []) else kernel,
        pads=_ceiled(self, draft.out[0], kernel, stride, pads, listed(dilation, num), ceil_mode),
        dilations=listed(dilation, num),
    )  # fmt: skip
    return made if had else draft.reshape(made, draft.out[0].shape)


@operator("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool_with_indices(draft: Draft, self: Value, kernel_size: Any, *, name: str, **rest: Any) -> list[str]:
    # Indices are only wanted for a backward pass; where something reads them, their absence is an error.
    return [_pooled(draft, self, kernel_size, name.removesuffix("_with_indices"), **rest), ""]


def _ceiled(
    x: Value, out: Value, kernel: Sequence[int], stride: Any, pads: Sequence[int], dilation: Sequence[int], ceil: bool
) -> list[int]:
    """Return pads that give PyTorch's size: rounding up is written as more padding behind."""
    if not ceil:
        return [*pads] * 2
    steps = listed(stride, len(kernel)) if stride not in ((), []) else kernel
    num = len(kernel)
    behind = []
    for size, given, width, step, pad, hole in zip(
        x.shape[-num:], out.shape[-num:], kernel, steps, pads, dilation, strict=True
    ):
        behind.append(max(pad, (given - 1) * step + hole * (width - 1) + 1 - size - pad))
    return [*pads, *behind]


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    draft: Draft, self: Value, kernel_size: Any, *, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, name: str,
) -> str:  # fmt: skip
    num = int(name.removesuffix("d")[-1])
    kernel, padded = listed(kernel_size, num), listed(padding, num)
    steps = listed(stride, num) if stride not in ((), []) else kernel
    pads = _ceiled(self, draft.out[0], kernel, steps, padded, [1] * num, ceil_mode)
    factors = None
    if ceil_mode or divisor_override is not None:
        factors = _divisors(
            self.shape[-num:], kernel, steps, padded, pads, ceil_mode, count_include_pad, divisor_override
        )
    with_batch, had = _with_batch(draft, self, num)
    made = draft.add(
        "AveragePool", with_batch, kernel_shape=kernel, strides=steps, pads=pads,
        count_include_pad=int(count_include_pad or factors is not None),
    )  # fmt: skip
    if factors is not None and not bool((factors == 1).all()):
        made = draft.add("Mul", made, draft.constant(factors.to(draft.out[0].dtype)))
    return made if had else draft.reshape(made, draft.out[0].shape)


def _divisors(
    sizes: Sequence[int], kernel: list[int], steps: list[int], padded: list[int], pads: Sequence[int],
    rounds_up: bool, counts_padding: bool, divisor: int | None,
) -> torch.Tensor:  # fmt: skip
    """Return what turns sums over whole windows, divided by the window's size, into PyTorch's averages.

    PyTorch divides by what a window covers of the input and its padding, but not of what is added to round sizes up.
    ONNX Runtime and OpenVINO each count that in a way of their own. Of ones, PyTorch's averages show the divisor.
    """
    num = len(kernel)
    ones = torch.ones(1, 1, *sizes)
    around = [width for axis in reversed(range(num)) for width in (pads[axis], pads[num + axis])]
    whole = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}[num]
    sums = whole(functional.pad(ones, around), kernel, steps)
    more = {"divisor_override": divisor} if divisor is not None else {}
    return whole(ones, kernel, steps, padded, rounds_up, counts_padding, **more) / sums


@operator(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
)  # fmt: skip
def _adaptive(draft: Draft, self: Value, *, name: str, **_: Any) -> str:
    num = int(name.removesuffix("d")[-1])
    sizes, given = self.shape[-num:], draft.out[0].shape[-num:]
    if all(size == 1 for size in given):
        axes = draft.integers(range(self.rank - num, self.rank))
        return draft.add("ReduceMean", self.name, axes, keepdims=1)
    if any(made == 0 or size % made for size, made in zip(sizes, given, strict=True)):
        raise refuse("adaptive pooling with windows of several sizes")
    kernel = [size // made for size, made in zip(sizes, given, strict=True)]
    with_batch, had = _with_batch(draft, self, num)
    made = draft.add("AveragePool", with_batch, kernel_shape=kernel, strides=kernel)
    return made if had else draft.reshape(made, draft.out[0].shape)


@operator("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d", "upsample_linear1d")
def _upsample(draft: Draft, **given: Any) -> str:
    x: Value = given.get("input") or given["self"]
    name = "linear" if "align_corners" in given else "nearest"
    scales = [out / size for out, size in zip(draft.out[0].shape, x.shape, strict=True)]
    asked = _asked_scales(given, len(scales) - 2)
    if asked is not None and any(scale != wanted for scale, wanted in zip(scales[2:], asked, strict=True)):
        raise refuse("a resize whose scale is not that of its sizes")
    corners = "align_corners" if given.get("align_corners") else "half_pixel" if name == "linear" else "asymmetric"
    return draft.add(
        "Resize", x.name, "", "", draft.integers(draft.out[0].shape), mode=name,
        coordinate_transformation_mode=corners,  # ONNX's `pytorch_half_pixel` is not what PyTorch computes of one place
        nearest_mode="floor" if name == "nearest" else None,
    )  # fmt: skip


def _asked_scales(given: dict[str, Any], num: int) -> list[float] | None:
    listed_scales = given.get("scale_factors")
    if listed_scales:
        return [float(scale) for scale in listed_scales]
    single = (
        [given.get(name) for name in ("scales_d", "scales_h", "scales_w")][-num:] if num > 1 else [given.get("scales")]
    )
    return None if any(scale is None for scale in single) else [float(scale) for scale in single if scale is not None]


@operator("instance_norm")
def _instance_norm(draft: Draft, input: Value, weight: Value | None, bias: Value | None, **rest: Any) -> str:
    if not rest.get("use_input_stats"):
        raise refuse("an instance normalisation by kept statistics")
    scale, offset = (
        draft.constant(torch.full((input.shape[1],), fill, dtype=input.dtype)) if value is None else value.name
        for value, fill in ((weight, 1.0), (bias, 0.0))
    )
    return draft.add("InstanceNormalization", input.name, scale, offset, epsilon=float(rest["eps"]))
