"""`apex.normalization`: NVIDIA's layers are CUDA kernels; these are `torch.nn.LayerNorm`, as in the migration guide."""

from __future__ import annotations

import functools

from jumar.amp.apex.stand_ins import stand_ins

_LAYER, _RMS = "torch.nn.LayerNorm", "torch.nn.RMSNorm or torch_npu.npu_rms_norm"
_FOUND = stand_ins(
    "apex.normalization",
    {"FusedLayerNorm": _LAYER, "MixedFusedLayerNorm": _LAYER, "FusedRMSNorm": _RMS, "MixedFusedRMSNorm": _RMS},
    functools.partial(ModuleNotFoundError, name="fused_layer_norm_cuda"),
)
globals().update(_FOUND)
__all__ = list(_FOUND)
