"""`torch_npu.optim`: optimizers that update all parameters of a group as one tensor.

The parameters, their gradients and the optimizer's state are moved into combined tensors, one for each
dtype, and an update is a handful of operators on those. What a script notices: `npu_fused_optim_base`.
"""

from __future__ import annotations

from jumar.npu.api.optim.npu_fused_adadelta import NpuFusedAdadelta
from jumar.npu.api.optim.npu_fused_adam import NpuFusedAdam
from jumar.npu.api.optim.npu_fused_adamp import NpuFusedAdamP
from jumar.npu.api.optim.npu_fused_adamw import NpuFusedAdamW
from jumar.npu.api.optim.npu_fused_bert_adam import NpuFusedBertAdam
from jumar.npu.api.optim.npu_fused_lamb import NpuFusedLamb
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase
from jumar.npu.api.optim.npu_fused_rmsprop import NpuFusedRMSprop
from jumar.npu.api.optim.npu_fused_rmsprop_tf import NpuFusedRMSpropTF
from jumar.npu.api.optim.npu_fused_sgd import NpuFusedSGD

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]
