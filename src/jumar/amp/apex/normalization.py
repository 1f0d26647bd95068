"""`apex.normalization`: PyTorch's own layers in the places of NVIDIA's CUDA kernels."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "MixedFusedRMSNorm"]


class FusedRMSNorm(nn.RMSNorm):
    """`torch.nn.RMSNorm` with Apex's default of `eps` (1e-5); options of NVIDIA's kernels are taken and not used."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, **_options: Any
    ) -> None:
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)


class FusedLayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm`; options of NVIDIA's kernels are taken and not used."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, **_options: Any
    ) -> None:
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)


MixedFusedLayerNorm = FusedLayerNorm
MixedFusedRMSNorm = FusedRMSNorm
