"""`apex.optimizers`: the fused optimizers of Ascend's apex over flat buffers, and two of NVIDIA's by PyTorch."""

from __future__ import annotations

from jumar.amp.apex.nvidia import FusedAdam, FusedSGD
from jumar.amp.apex.stand_ins import stand_ins
from jumar.amp.optimizers import SGD, Adadelta, Adam, AdamP, AdamW, BertAdam, Lamb, RMSprop, RMSpropTF

NpuFusedSGD, NpuFusedAdam, NpuFusedAdamW, NpuFusedAdamP = SGD, Adam, AdamW, AdamP
NpuFusedAdadelta, NpuFusedBertAdam, NpuFusedLamb = Adadelta, BertAdam, Lamb
NpuFusedRMSprop, NpuFusedRMSpropTF = RMSprop, RMSpropTF

_INSTEAD = {
    "FusedLAMB": "apex.optimizers.NpuFusedLamb",
    "FusedMixedPrecisionLamb": "apex.optimizers.NpuFusedLamb with apex.amp",
    "FusedNovoGrad": "an implementation in PyTorch operators",
    "FusedAdagrad": "torch.optim.Adagrad",
}
_REFUSED = stand_ins("apex.optimizers", _INSTEAD, RuntimeError, "this apex")
globals().update(_REFUSED)

__all__ = [
    "FusedAdam", "FusedSGD", "NpuFusedAdadelta", "NpuFusedAdam", "NpuFusedAdamP", "NpuFusedAdamW", "NpuFusedBertAdam",
    "NpuFusedLamb", "NpuFusedRMSprop", "NpuFusedRMSpropTF", "NpuFusedSGD",
]  # fmt: skip
__all__ += list(_REFUSED)
