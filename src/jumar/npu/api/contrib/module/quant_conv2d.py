"""A convolution of integers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.utils import _pair

Tensor = torch.Tensor
Size = int | tuple[int, int]

__all__ = ["QuantConv2d"]


class QuantConv2d(nn.Module):
    """`npu_quant_conv2d` of an int8 input and weight, dequantised by `scale`.

    A model fills the parameters from a quantised checkpoint: `weight` (out_channels, in_channels / groups,
    height, width), `scale` (out_channels,) packed int64 or float32, and `bias` (out_channels,); none is
    trained. `offset_x` is the value that pads. `device` and `dtype` change nothing, as at the vendor's.
    Raises ValueError for `offset=True`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        output_dtype: int,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        offset: bool = False,
        offset_x: int = 0,
        round_mode: str = "rint",
        input_dtype: int | None = None,
        weight_dtype: int | None = None,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        if offset:
            raise ValueError("offset must be False")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.offset_x, self.round_mode = offset_x, round_mode
        self.input_dtype, self.weight_dtype, self.output_dtype = input_dtype, weight_dtype, output_dtype
        self.weight = _frozen(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.scale = _frozen(torch.empty(out_channels, dtype=torch.int64))
        self.register_parameter("bias", _frozen(torch.empty(out_channels)) if bias else None)
        self.register_parameter("offset", None)

    def forward(self, quant_conv2d_input: Tensor) -> Tensor:
        """Return the convolution of the input (batch, in_channels, height, width) as `output_dtype`."""
        scale: Tensor = self.scale
        if scale.dtype == torch.float32:
            scale = torch.ops.npu.npu_trans_quant_param(scale)
        result: Tensor = torch.ops.npu.npu_quant_conv2d(
            quant_conv2d_input,
            self.weight,
            scale,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.offset_x,
            self.round_mode,
            self.output_dtype,
            self.bias,
            self.offset,
            self.input_dtype,
            self.weight_dtype,
        )
        return result


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)
