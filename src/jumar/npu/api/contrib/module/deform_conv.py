"""Modulated deformable convolution."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.modules.utils import _pair

Tensor = torch.Tensor

__all__ = ["DCNv2", "ModulatedDeformConv", "ModulatedDeformConv2dFunction"]


class ModulatedDeformConv2dFunction(torch.autograd.Function):
    """`npu_deformable_conv2d` for offsets in the usual order (y, x for each kernel element); float32."""

    @staticmethod
    def forward(
        ctx: Any,
        input_tensor: Tensor,
        offset_ori: Tensor,
        mask: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        with_bias: bool = False,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        sort_index_for_npu_fp: Tensor | None = None,
        sort_index_for_npu_bp: Tensor | None = None,
    ) -> Tensor:
        """Return the convolution; the operator wants all x offsets, then all y offsets, then the mask."""
        image = input_tensor.float()
        # NOTE: without an index the vendor's function fails here too.
        offset = offset_ori.float().index_select(1, sort_index_for_npu_fp)  # type: ignore[arg-type]
        offsets = torch.cat([offset, mask.float()], dim=1)
        ctx.options = {
            "kernel_size": [weight.shape[3], weight.shape[2]],
            "stride": [1, 1, stride, stride],
            "padding": [padding] * 4,
            "dilation": [1, 1, dilation, dilation],
            "groups": groups,
            "deformable_groups": deformable_groups,
            "modulated": True,
        }
        ctx.with_bias, ctx.sort_index_for_npu_bp = with_bias, sort_index_for_npu_bp
        output, sampled = torch.ops.npu.npu_deformable_conv2d(image, weight, offsets, bias, **ctx.options)
        ctx.save_for_backward(image, weight, sampled, offsets)
        result: Tensor = output
        return result

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of image, offsets, mask, weight and bias."""
        image, weight, sampled, offsets = ctx.saved_tensors
        grad_image, grad_weight, grad_offsets, grad_bias = torch.ops.npu.npu_deformable_conv2dbk(
            image, grad_output, sampled, weight, offsets, **ctx.options
        )
        grad_offset = grad_offsets.index_select(1, ctx.sort_index_for_npu_bp)
        grad_mask = grad_offsets[:, grad_offset.shape[1] :]
        return (grad_image, grad_offset, grad_mask, grad_weight, grad_bias if ctx.with_bias else None, *[None] * 8)


class ModulatedDeformConv(nn.Module):
    """Convolution that samples its input at learned offsets and scales the samples by a learned mask (DCNv2).

    Zhu et al., "Deformable ConvNets v2". The input is (batch, in_channels, height, width) float32. With
    `pack` a convolution inside makes offsets and mask, from zero weights at first; without, `forward` takes
    (input, offset, mask). Stride, padding and dilation are whole numbers.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = True,
        pack: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = _pair(kernel_size)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups, self.deformable_groups = groups, deformable_groups
        self.with_bias, self.pack = bias, pack
        num_elements = deformable_groups * self.kernel_size[0] * self.kernel_size[1]
        self.split_num = 2 * num_elements
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else torch.zeros(out_channels)
        if pack:
            self.conv_offset = nn.Conv2d(
                in_channels, 3 * num_elements, self.kernel_size, _pair(stride), _pair(padding), bias=True
            )
        places = torch.arange(self.split_num, dtype=torch.int32)
        self.sort_index_for_npu_fp = torch.cat([places[1::2], places[::2]])
        self.sort_index_for_npu_bp = self.sort_index_for_npu_fp.argsort().int()
        self.sort_index_for_npu_todevice = False
        self.init_param()

    def init_param(self) -> None:
        """Draw the weight uniformly; set the bias and what makes the offsets to zero."""
        bound = 1.0 / math.sqrt(self.in_channels * math.prod(self.kernel_size))
        self.weight.data.uniform_(-bound, bound)
        self.bias.data.zero_()
        if self.pack:
            self.conv_offset.weight.data.zero_()
            assert self.conv_offset.bias is not None, "made with one"
            self.conv_offset.bias.data.zero_()

    def forward(self, x: Any) -> Tensor:
        """Return the convolution of `x`, or of (input, offset, mask) without `pack`."""
        if self.pack:
            made = self.conv_offset(x)
            offset, mask = made[:, : self.split_num], torch.sigmoid(made[:, self.split_num :])
        else:
            x, offset, mask = x
        if not self.sort_index_for_npu_todevice:
            self.sort_index_for_npu_fp = self.sort_index_for_npu_fp.to(x.device)
            self.sort_index_for_npu_bp = self.sort_index_for_npu_bp.to(x.device)
            self.bias = self.bias.to(x.device)
            self.sort_index_for_npu_todevice = True
        result: Tensor = ModulatedDeformConv2dFunction.apply(  # type: ignore[no-untyped-call]
            x,
            offset,
            mask,
            self.weight,
            self.bias,
            self.with_bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.deformable_groups,
            self.sort_index_for_npu_fp,
            self.sort_index_for_npu_bp,
        )
        return result


DCNv2 = ModulatedDeformConv
