"""`NpuFusedLamb`."""

from __future__ import annotations

from typing import Any

import torch

from jumar.amp.flat.formulas.lamb import LambFormula
from jumar.amp.flat.optimizers.arguments import check_betas, check_epsilon, check_learning_rate
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase

Tensor = torch.Tensor

__all__ = ["NpuFusedLamb"]


class NpuFusedLamb(NpuFusedOptimizerBase):
    """Lamb without correction of the bias to zero, weight norms clamped to [0, 10].

    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", the first
    version. `adam=True` leaves the trust ratio at 1. `use_global_grad_norm=True` needs an optimizer that
    Apex has prepared: like the vendor's class, this one asks it for `get_optimizer_combined_grads` (AttributeError
    without). Raises ValueError for options out of range.
    """

    _combines_first = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_betas(betas)
        check_epsilon(eps)
        self.adam = adam
        self.use_global_grad_norm = use_global_grad_norm
        self.global_grad_norm = torch.ones(1, device="npu")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _step_groups(self) -> None:
        if self.use_global_grad_norm:
            self.global_grad_norm = self._get_global_grad_norm()
        super()._step_groups()

    def _get_global_grad_norm(self) -> Tensor:
        prepared: Any = self  # Apex adds both functions
        pairs = zip(prepared.get_optimizer_combined_grads(), prepared.get_optimizer_combined_grad_masks(), strict=True)
        total: Tensor = sum(gradient.pow(2).mul_(mask).sum() for gradient, mask in pairs if gradient is not None)
        return total.sqrt_()

    def _formula(self) -> LambFormula:
        formula = LambFormula(is_adam=self.adam)
        formula.divisor = self.global_grad_norm.item()
        return formula
