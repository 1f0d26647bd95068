"""`NpuFusedRMSprop`."""

from __future__ import annotations

from typing import Any

from jumar.amp.flat.formulas.rmsprop import RMSpropFormula
from jumar.amp.flat.optimizers.arguments import RMSPROP_LATE_OPTIONS, rmsprop_defaults
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase

__all__ = ["NpuFusedRMSprop"]


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    """RMSprop with L2 weight decay, as `torch.optim.RMSprop` computes it.

    `centered` divides by an estimate of the gradient's deviation (Graves, arXiv:1308.0850). Raises
    ValueError for options out of range.
    """

    _late_options = RMSPROP_LATE_OPTIONS

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        super().__init__(params, rmsprop_defaults(lr, alpha, eps, weight_decay, momentum, centered))

    def _formula(self) -> RMSpropFormula:
        return RMSpropFormula()
