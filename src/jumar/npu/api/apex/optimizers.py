"""`apex.optimizers`: the fused optimizers of Ascend's apex are those of `torch_npu.optim`; NVIDIA's need CUDA."""

from __future__ import annotations

from jumar.amp.apex.stand_ins import stand_ins
from jumar.npu.api import optim

_INSTEAD = {
    "FusedAdam": "apex.optimizers.NpuFusedAdamW (adam_w_mode=True) or NpuFusedAdam",
    "FusedSGD": "apex.optimizers.NpuFusedSGD",
    "FusedLAMB": "apex.optimizers.NpuFusedLamb",
    "FusedMixedPrecisionLamb": "apex.optimizers.NpuFusedLamb with apex.amp",
    "FusedNovoGrad": "an implementation in PyTorch operators",
    "FusedAdagrad": "torch.optim.Adagrad",
}
_FOUND = {name: getattr(optim, name) for name in optim.__all__ if name != "NpuFusedOptimizerBase"}
_FOUND |= stand_ins("apex.optimizers", _INSTEAD, RuntimeError)
globals().update(_FOUND)
__all__ = list(_FOUND)
