"""`NpuFusedAdam`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jumar.amp.flat.formulas.adam import AdamFormula
from jumar.amp.flat.optimizers.arguments import check_betas, check_epsilon, check_learning_rate, check_not_negative
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase

__all__ = ["NpuFusedAdam"]


class NpuFusedAdam(NpuFusedOptimizerBase):
    """Adam with L2 weight decay, as `torch.optim.Adam` computes it.

    Kingma and Ba, "Adam: A Method for Stochastic Optimization"; `amsgrad`: Reddi et al., "On the
    Convergence of Adam and Beyond". Raises ValueError for options out of range.
    """

    _late_options: ClassVar[Mapping[str, Any]] = {"amsgrad": False}

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_epsilon(eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, defaults)

    def _formula(self) -> AdamFormula:
        return AdamFormula()
