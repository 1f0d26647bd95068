"""Pooling of regions by bilinear sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

Tensor = torch.Tensor

__all__ = ["ROIAlign"]

_LEGACY, _ALIGNED = 0, 3
"""Values of the operators' `roi_end_mode`."""


class _ROIAlign(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        rois: Tensor,
        output_size: Sequence[int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool,
    ) -> Tensor:
        ctx.save_for_backward(rois)
        ctx.shape, ctx.output_size = features.shape, output_size
        ctx.options = spatial_scale, sampling_ratio, _ALIGNED if aligned else _LEGACY
        result: Tensor = torch.ops.npu.npu_roi_align(
            features, rois, spatial_scale, output_size[0], output_size[1], *ctx.options[1:]
        )
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (rois,) = ctx.saved_tensors
        height, width = ctx.output_size
        grad = torch.ops.npu.npu_roi_alignbk(grad_output, rois, ctx.shape, width, height, *ctx.options)
        return (grad, None, None, None, None, None)


roi_align = _ROIAlign.apply


class ROIAlign(nn.Module):
    """`npu_roi_align` (He et al., "Mask R-CNN"), computed in float32.

    `output_size` is (height, width). `aligned` shifts the regions by half a pixel, as torchvision's does;
    `sampling_ratio` samples are taken in each direction of a bin, 0 for as many as it has pixels.
    """

    def __init__(
        self, output_size: Sequence[int], spatial_scale: float, sampling_ratio: int, aligned: bool = True
    ) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input_tensor: Tensor, rois: Tensor) -> Tensor:
        """Return (num_rois, channels, *output_size).

        `input_tensor` is (batch, channels, height, width), `rois` (num_rois, 5): index of the image and
        corners. Raises ValueError for regions of another shape.
        """
        if rois.dim() != 2 or rois.size(1) != 5:
            raise ValueError("Expected rois.dim() == 2 and rois.size(1) == 5")
        result: Tensor = roi_align(  # type: ignore[no-untyped-call]
            input_tensor.float(), rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        )
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned}"
        )
