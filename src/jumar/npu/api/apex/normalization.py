"""`apex.normalization`: NVIDIA's layers are CUDA kernels; these are `torch.nn.LayerNorm`, as in the migration guide."""

from __future__ import annotations

from typing import Any

__all__ = ["FusedLayerNorm", "FusedRMSNorm", "MixedFusedLayerNorm", "MixedFusedRMSNorm"]


class _NeedsCuda:
    instead = "torch.nn.LayerNorm"

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise ModuleNotFoundError(
            f"apex.normalization.{type(self).__name__} needs fused_layer_norm_cuda, which an NPU does not have; "
            f"use {self.instead}.",
            name="fused_layer_norm_cuda",
        )


class FusedLayerNorm(_NeedsCuda):
    """NVIDIA's layer norm; raises ModuleNotFoundError."""


class MixedFusedLayerNorm(_NeedsCuda):
    """NVIDIA's layer norm in mixed precision; raises ModuleNotFoundError."""


class FusedRMSNorm(_NeedsCuda):
    """NVIDIA's RMS norm; raises ModuleNotFoundError."""

    instead = "torch.nn.RMSNorm or torch_npu.npu_rms_norm"


class MixedFusedRMSNorm(FusedRMSNorm):
    """NVIDIA's RMS norm in mixed precision; raises ModuleNotFoundError."""
