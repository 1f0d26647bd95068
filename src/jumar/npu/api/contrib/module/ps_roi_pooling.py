"""Position-sensitive pooling of regions."""

from __future__ import annotations

import torch
from torch import nn

Tensor = torch.Tensor

__all__ = ["PSROIPool"]


class PSROIPool(nn.Module):
    """`npu_ps_roi_pooling` (Dai et al., "R-FCN"). Raises ValueError unless height, width and groups are equal."""

    def __init__(
        self,
        pooled_height: int = 7,
        pooled_width: int = 7,
        spatial_scale: float = 1 / 16.0,
        group_size: int = 7,
        output_dim: int = 22,
    ) -> None:
        super().__init__()
        if not pooled_height == pooled_width == group_size:
            raise ValueError("only pooled_height == pooled_width == group_size supported.")
        self.group_size, self.spatial_scale, self.output_dim = group_size, spatial_scale, output_dim

    def forward(self, features: Tensor, rois: Tensor) -> Tensor:
        """Return (batch * num_rois, output_dim, group_size, group_size).

        `features` is (batch, group_size**2 * output_dim, height, width), `rois` (batch, 5, num_rois): index
        of the image and corners in pixels.
        """
        result: Tensor = torch.ops.npu.npu_ps_roi_pooling(
            features, rois, self.spatial_scale, self.group_size, self.output_dim
        )
        return result

    def extra_repr(self) -> str:
        """Return the options."""
        return f"spatial_scale={self.spatial_scale}, group_size={self.group_size}, output_dim={self.output_dim}"
