"""`NpuFusedAdam`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from jumar.npu.api.optim.checks import check_betas, check_epsilon, check_learning_rate, check_not_negative
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

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

    def _new_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        names = ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []))
        return {name: torch.zeros_like(parameter) for name in names}

    def _update(self, part: Part, group: Group) -> None:
        adam_update(part, part.decayed(group["weight_decay"]), group)


def adam_update(part: Part, gradient: Tensor, group: Group) -> None:
    """Move the flat parameter by Adam's step for this flat gradient, and the moments with it."""
    first, second = adam_moments(part, gradient, group["betas"])
    if group["amsgrad"]:
        greatest = part.state["max_exp_avg_sq"]
        torch.maximum(greatest, second, out=greatest)
        second = greatest
    step_size, denominator = adam_scale(part, second, group)
    part.parameter.addcdiv_(first, denominator, value=-step_size)


def adam_moments(part: Part, gradient: Tensor, betas: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Move the running means of the gradient and of its square; return them."""
    first, second = part.state["exp_avg"], part.state["exp_avg_sq"]
    first.mul_(betas[0]).add_(gradient, alpha=1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    return first, second


def adam_scale(part: Part, second: Tensor, group: Group) -> tuple[float, Tensor]:
    """Return the step size and the denominator of Adam's update, both with the correction of the bias to zero."""
    beta1, beta2 = group["betas"]
    root = second.sqrt() / math.sqrt(1 - beta2**part.num_steps)
    return group["lr"] / (1 - beta1**part.num_steps), root.add_(group["eps"])
