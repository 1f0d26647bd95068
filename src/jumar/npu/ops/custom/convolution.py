"""Convolutions by the vendor's names, and their backward.

Only `npu_convolution` and `npu_convolution_transpose` carry a gradient, as in the vendor's adapter; the others
have backward operators that programs call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor
Sizes = Sequence[int]


@implements("npu_conv2d", differentiable=False)
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, *rest: Any) -> Tensor:
    """As `torch.nn.functional.conv2d`; padding is (h, w), or top, bottom, left, right."""
    expect(x.dim() == 4, "npu_conv2d", "the input must have 4 dimensions", x.dim())
    if len(padding) == 4:
        top, bottom, left, right = padding
        x, padding = torch.nn.functional.pad(x, [left, right, top, bottom]), (0, 0)
    return convolution(x, weight, bias, stride, padding, *rest)


@implements("npu_conv3d", differentiable=False)
def conv3d(x: Tensor, *rest: Any) -> Tensor:
    """As `torch.nn.functional.conv3d`."""
    expect(x.dim() == 5, "npu_conv3d", "the input must have 5 dimensions", x.dim())
    return convolution(x, *rest)


@implements("npu_convolution")
def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """`npu_conv2d` or `npu_conv3d`, by the dimensions of the input."""
    expect(x.dim() in (4, 5), "npu_convolution", "the input must have 4 or 5 dimensions", x.dim())
    zeros = [0] * len(stride)
    return torch.ops.aten.convolution(  # type: ignore[no-any-return]
        x, weight, bias, stride, padding, dilation, False, zeros, groups
    )


@implements("npu_conv_transpose2d", differentiable=False)
def conv_transpose2d(x: Tensor, *rest: Any) -> Tensor:
    """As `torch.nn.functional.conv_transpose2d`, with the arguments in the vendor's order."""
    expect(x.dim() == 4, "npu_conv_transpose2d", "the input must have 4 dimensions", x.dim())
    return convolution_transpose(x, *rest)


@implements("npu_convolution_transpose")
def convolution_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Sizes,
    output_padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    """Transposed convolution in 2 or 3 dimensions."""
    expect(x.dim() in (4, 5), "npu_convolution_transpose", "the input must have 4 or 5 dimensions", x.dim())
    return torch.ops.aten.convolution(  # type: ignore[no-any-return]
        x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


def _backward(
    x: Tensor,
    grad: Tensor,
    weight: Tensor,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
    mask: Sequence[bool],
    output_padding: Sizes | None = None,
) -> Any:
    """Gradients of input, weight and bias; None where `mask` does not ask. `output_padding` says transposed."""
    transposed = output_padding is not None
    if len(padding) == 2 * (x.dim() - 2):  # the sides of each dimension, which must be equal
        expect(padding[::2] == padding[1::2], "npu_conv2d_backward", "both sides must be padded alike", list(padding))
        padding = padding[::2]
    return torch.ops.aten.convolution_backward(
        grad, x, weight, [grad.shape[1]], stride, padding, dilation, transposed, output_padding or [0] * len(stride),
        groups, mask,
    )  # fmt: skip


@implements("npu_conv2d_backward", "npu_conv3d_backward", "npu_convolution_backward", differentiable=False)
def convolution_backward(*given: Any) -> Any:
    """Gradients of input, weight and bias; None where the mask, which comes last, does not ask."""
    return _backward(*given)


@implements(
    "npu_conv_transpose2d_backward",
    "npu_conv_transpose3d_backward",
    "npu_convolution_transpose_backward",
    differentiable=False,
)
def convolution_transpose_backward(
    x: Tensor, grad: Tensor, weight: Tensor, padding: Sizes, output_padding: Sizes, stride: Sizes, *rest: Any
) -> Any:
    """Gradients of input, weight and bias of a transposed convolution."""
    dilation, groups, mask = rest
    return _backward(x, grad, weight, stride, padding, dilation, groups, mask, output_padding)


@implements("_conv_depthwise2d_backward", differentiable=False)
def depthwise_backward(
    grad: Tensor, x: Tensor, weight: Tensor, _size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, mask: Any
) -> Any:
    """Gradients of input and weight of a convolution of each channel by itself."""
    return _backward(x, grad, weight, stride, padding, dilation, x.shape[1], [*mask, False])[:2]


@implements("slow_conv_dilated2d_backward", differentiable=False)
def dilated_backward(
    grad: Tensor, x: Tensor, weight: Tensor, _size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, mask: Any
) -> Any:
    """Gradients of input, weight and bias of a dilated convolution."""
    return _backward(x, grad, weight, stride, padding, dilation, 1, mask)


@implements("slow_conv_transpose2d_backward", differentiable=False)
def slow_transpose_backward(grad: Tensor, x: Tensor, weight: Tensor, _size: Sizes, *given: Any) -> Any:
    """Gradients of input, weight and bias of a transposed convolution."""
    stride, padding, output_padding, dilation, mask = given
    return _backward(x, grad, weight, stride, padding, dilation, 1, mask, output_padding)


@derivative("npu_convolution")
def _convolution_gradients(step: Step) -> dict[str, Tensor | None]:
    return _asked(step, torch.ops.npu.npu_convolution_backward)


@derivative("npu_convolution_transpose")
def _transpose_gradients(step: Step) -> dict[str, Tensor | None]:
    return _asked(step, torch.ops.npu.npu_convolution_transpose_backward)


def _asked(step: Step, operator: Any) -> dict[str, Tensor | None]:
    x, weight, _bias, *rest = step.arguments.values()
    names = ("input", "weight", "bias")
    mask = [name in step.needs for name in names]
    return dict(zip(names, operator(x, step.gradients[0], weight, *rest, mask), strict=True))
