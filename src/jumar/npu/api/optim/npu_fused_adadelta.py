"""`NpuFusedAdadelta`."""

from __future__ import annotations

from typing import Any

from jumar.amp.flat.formulas.adadelta import AdadeltaFormula
from jumar.amp.flat.optimizers.arguments import check_epsilon, check_learning_rate, check_not_negative
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase

__all__ = ["NpuFusedAdadelta"]


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """Adadelta with L2 weight decay, as `torch.optim.Adadelta` computes it.

    Zeiler, "ADADELTA: An Adaptive Learning Rate Method". Raises ValueError for options out of range.
    """

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        check_learning_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_epsilon(eps)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _formula(self) -> AdadeltaFormula:
        return AdadeltaFormula()
