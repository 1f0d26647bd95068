"""`NpuFusedRMSpropTF`."""

from __future__ import annotations

from typing import Any

from jumar.amp.flat.formulas.rmsprop import RMSpropTFFormula
from jumar.amp.flat.optimizers.arguments import RMSPROP_LATE_OPTIONS, rmsprop_defaults
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase

__all__ = ["NpuFusedRMSpropTF"]


class NpuFusedRMSpropTF(NpuFusedOptimizerBase):
    """RMSprop as TensorFlow computes it.

    The mean of squares begins at one, epsilon is added before the root, and the learning rate is applied
    inside the momentum unless `lr_in_momentum=False`. `decoupled_decay` shrinks the parameters by
    `weight_decay` itself, without the learning rate. Raises ValueError for options out of range.
    """

    _late_options = RMSPROP_LATE_OPTIONS

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
    ) -> None:
        more = {"decoupled_decay": decoupled_decay, "lr_in_momentum": lr_in_momentum}
        super().__init__(params, rmsprop_defaults(lr, alpha, eps, weight_decay, momentum, centered) | more)

    def _formula(self) -> RMSpropTFFormula:
        return RMSpropTFFormula()
