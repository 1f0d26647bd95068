"""Deformable convolution (Dai et al. 2017, Zhu et al. 2019): a convolution over samples taken at learned places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect
from jumar.npu.ops.mechanism.gradients import differentiate, like
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, shared

Tensor = torch.Tensor
_NAME = "npu_deformable_conv2d"


class _Geometry:
    """Sizes and steps of one call: stride and dilation are (n, c, h, w), padding is top, bottom, left, right."""

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        weight_groups: int,
        deformable_groups: int,
        modulated: bool,
    ) -> None:
        for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation)):
            expect(len(value) == 4, _NAME, f"{name} must have 4 numbers", list(value))
        self.kernel = tuple(kernel_size)
        self.stride, self.dilation = tuple(stride[2:]), tuple(dilation[2:])
        self.before, self.after = (padding[0], padding[2]), (padding[1], padding[3])
        self.weight_groups, self.groups, self.modulated = weight_groups, deformable_groups, modulated

    def out_size(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of the output."""
        first, second = (
            (size[i] + self.before[i] + self.after[i] - (self.kernel[i] - 1) * self.dilation[i] - 1) // self.stride[i]
            + 1
            for i in (0, 1)
        )
        return first, second


def _places(offset: Tensor, geometry: _Geometry) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return rows, columns and masks of the samples, (n, groups, kh, kw, oh, ow).

    `offset` holds all moves along x, then all along y, then all masks, each by group, kernel row and column.
    """
    n, channels, height, width = offset.shape
    shape = (n, geometry.groups, *geometry.kernel, height, width)
    parts = 3 if geometry.modulated else 2
    wanted = parts * geometry.groups * geometry.kernel[0] * geometry.kernel[1]
    expect(channels == wanted, _NAME, f"offset must have {wanted} channels", channels)
    x_move, y_move, *masks = (part.reshape(shape) for part in offset.chunk(parts, 1))

    def regular(axis: int, length: int) -> Tensor:
        outputs = torch.arange(length, device=offset.device) * geometry.stride[axis] - geometry.before[axis]
        taps = torch.arange(geometry.kernel[axis], device=offset.device) * geometry.dilation[axis]
        return taps.unsqueeze(1) + outputs

    rows = regular(0, height).view(geometry.kernel[0], 1, height, 1) + y_move
    columns = regular(1, width).view(1, geometry.kernel[1], 1, width) + x_move
    return rows, columns, masks[0] if masks else None


def _sampled(x: Tensor, offset: Tensor, geometry: _Geometry) -> Tensor:
    """Return the bilinear samples, (n, c, oh * kh, ow * kw); what is outside the image is 0."""
    rows, columns, masks = _places(offset, geometry)
    n, channels, height, width = x.shape
    flat = x.reshape(n, geometry.groups, channels // geometry.groups, height * width)
    total: Tensor | None = None
    top, left = rows.floor(), columns.floor()
    for i in (0, 1):
        for j in (0, 1):
            row, column = top + i, left + j
            weight = (1 - (rows - row).abs()) * (1 - (columns - column).abs())
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
            index = index.flatten(2).unsqueeze(2).expand(-1, -1, flat.shape[2], -1)
            values = flat.gather(3, index).reshape(*flat.shape[:3], *rows.shape[2:]) * (weight * inside).unsqueeze(2)
            total = values if total is None else total + values
    assert total is not None, "four corners were added"
    if masks is not None:
        total = total * masks.unsqueeze(2)
    kh, kw, out_height, out_width = rows.shape[2:]
    return total.permute(0, 1, 2, 5, 3, 6, 4).reshape(n, channels, out_height * kh, out_width * kw)


def _convolved(samples: Tensor, weight: Tensor, bias: Tensor | None, geometry: _Geometry) -> Tensor:
    return torch.nn.functional.conv2d(samples, weight, bias, stride=geometry.kernel, groups=geometry.weight_groups)


def _float(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


@implements(_NAME, outputs=(0,), backward="npu_deformable_conv2dbk")
def deformable_conv2d(
    x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None, *given: Any
) -> tuple[Tensor, Tensor]:
    """The convolution (n, c_out, oh, ow) and the samples it was of (n, c, oh * kh, ow * kw), in float32.

    x (n, c, h, w), weight (c_out, c / groups, kh, kw), offset (n, 3 * deformable_groups * kh * kw, oh, ow), or 2
    instead of 3 when not modulated. `given` are the arguments of `_Geometry`.
    """
    expect(x.dim() == 4 and offset.dim() == 4, _NAME, "input and offset must have 4 dimensions", x.dim())
    geometry = _Geometry(*given)
    size = geometry.out_size(x.shape[2:])
    expect(tuple(offset.shape[2:]) == size, _NAME, f"offset must be of the output's size {size}", tuple(offset.shape))
    samples = _sampled(x.float(), offset.float(), geometry)
    return _convolved(samples, weight.float(), _float(bias), geometry), samples


def _shaped(x: Tensor, _grad: Tensor, _samples: Tensor, weight: Tensor, offset: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return *like(x.float(), weight.float(), offset.float()), weight.new_empty(weight.shape[0], dtype=torch.float32)


@implements("npu_deformable_conv2dbk", differentiable=False, meta=_shaped)
def deformable_conv2d_backward(
    x: Tensor, grad: Tensor, samples: Tensor, weight: Tensor, offset: Tensor, *given: Any
) -> tuple[Tensor, ...]:
    """Gradients of the input, the weight, the offsets and the bias, in float32."""
    geometry = _Geometry(*given)
    seed = grad.float()
    by_samples, by_weight = differentiate(
        lambda values, kernel: _convolved(values, kernel, None, geometry),
        (samples.float(), weight.float()),
        (seed,),
    )
    by_x, by_offset = differentiate(
        lambda image, moves: _sampled(image, moves, geometry), (x.float(), offset.float()), (by_samples,)
    )
    return by_x, by_weight, by_offset, seed.sum((0, 2, 3))


@derivative(_NAME, reads_results=True)
def _gradients(step: Step) -> dict[str, Tensor]:
    more = {"grad_output": step.gradients[0], "offset_out": step.results[1]}
    found = zip(("input", "weight", "offset", "bias"), shared(step, "npu_deformable_conv2dbk", **more), strict=True)
    return {name: gradient.to(step.arguments[name].dtype) for name, gradient in found if name in step.needs}
