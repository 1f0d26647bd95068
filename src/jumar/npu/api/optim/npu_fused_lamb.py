"""`NpuFusedLamb`."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.api.optim.checks import check_betas, check_epsilon, check_learning_rate
from jumar.npu.api.optim.npu_fused_adam import adam_moments
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

__all__ = ["NpuFusedLamb"]

_GREATEST_WEIGHT_NORM = 10.0


class NpuFusedLamb(NpuFusedOptimizerBase):
    """Lamb without correction of the bias to zero, weight norms clamped to [0, 10].

    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", the first
    version. `adam=True` leaves the trust ratio at 1. `use_global_grad_norm=True` needs an optimizer that
    Apex has prepared: like the vendor's class, this one asks it for `get_optimizer_combined_grads` (AttributeError
    without). Raises ValueError for options out of range.
    """

    _combines_first = True
    _state_names = ("exp_avg", "exp_avg_sq")
    _work_names = ("trust_ratio", "param_pow", "adam_step_pow")

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

    def _update(self, part: Part, group: Group) -> None:
        gradient = part.gradient
        if self.global_grad_norm.item() > 1:
            gradient = gradient / self.global_grad_norm
        first, second = adam_moments(part, gradient, group["betas"])
        adam_step = first / second.sqrt().add(group["eps"])
        if group["weight_decay"] != 0:
            adam_step.add_(part.parameter, alpha=group["weight_decay"])
        ratio = part.work["trust_ratio"]
        if self.adam:
            ratio.fill_(1)
        else:
            self._fill_ratio(part, adam_step)
        part.parameter.addcmul_(adam_step, ratio, value=-group["lr"])

    def _fill_ratio(self, part: Part, adam_step: Tensor) -> None:
        """Give every parameter's elements the ratio of its norm to the norm of its step."""
        weights = part.work["param_pow"].copy_(part.parameter.pow(2))
        steps = part.work["adam_step_pow"].copy_(adam_step.pow(2))
        pieces = zip(part.split(part.work["trust_ratio"]), part.split(weights), part.split(steps), strict=True)
        for ratio, weight, step in pieces:
            weight_norm = weight.sum().sqrt().clamp(0, _GREATEST_WEIGHT_NORM)
            step_norm = step.sum().sqrt()
            if weight_norm == 0 or step_norm == 0:
                ratio.fill_(1)
            else:
                ratio.copy_(weight_norm / step_norm)
