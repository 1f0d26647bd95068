"""`apex.optimizers`: the fused optimizers of Ascend's apex are those of `torch_npu.optim`; NVIDIA's need CUDA."""

from __future__ import annotations

from typing import Any

from jumar.npu.api.optim import (
    NpuFusedAdadelta,
    NpuFusedAdam,
    NpuFusedAdamP,
    NpuFusedAdamW,
    NpuFusedBertAdam,
    NpuFusedLamb,
    NpuFusedRMSprop,
    NpuFusedRMSpropTF,
    NpuFusedSGD,
)

__all__ = [
    "FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedMixedPrecisionLamb", "FusedNovoGrad", "FusedSGD",
    "NpuFusedAdadelta", "NpuFusedAdam", "NpuFusedAdamP", "NpuFusedAdamW", "NpuFusedBertAdam", "NpuFusedLamb",
    "NpuFusedRMSprop", "NpuFusedRMSpropTF", "NpuFusedSGD",
]  # fmt: skip


class _NeedsCuda:
    instead = ""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise RuntimeError(
            f"apex.optimizers.{type(self).__name__} requires cuda extensions, which an NPU does not have; "
            f"use {self.instead}."
        )


class FusedAdam(_NeedsCuda):
    """NVIDIA's Adam; raises RuntimeError."""

    instead = "apex.optimizers.NpuFusedAdamW (adam_w_mode=True) or NpuFusedAdam"


class FusedSGD(_NeedsCuda):
    """NVIDIA's SGD; raises RuntimeError."""

    instead = "apex.optimizers.NpuFusedSGD"


class FusedLAMB(_NeedsCuda):
    """NVIDIA's LAMB; raises RuntimeError."""

    instead = "apex.optimizers.NpuFusedLamb"


class FusedMixedPrecisionLamb(_NeedsCuda):
    """NVIDIA's LAMB with master weights; raises RuntimeError."""

    instead = "apex.optimizers.NpuFusedLamb with apex.amp"


class FusedNovoGrad(_NeedsCuda):
    """NVIDIA's NovoGrad; raises RuntimeError."""

    instead = "an implementation in PyTorch operators"


class FusedAdagrad(_NeedsCuda):
    """NVIDIA's Adagrad; raises RuntimeError."""

    instead = "torch.optim.Adagrad"
