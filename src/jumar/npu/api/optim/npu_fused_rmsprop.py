"""`NpuFusedRMSprop`."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.api.optim.checks import check_epsilon, check_learning_rate, check_not_negative
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

__all__ = ["NpuFusedRMSprop"]

RMSPROP_LATE_OPTIONS = {"momentum": 0, "centered": False}


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

    def _new_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        return {"square_avg": torch.zeros_like(parameter), **rmsprop_extras(parameter, group)}

    def _update(self, part: Part, group: Group) -> None:
        alpha, eps = group["alpha"], group["eps"]
        gradient, squares = part.decayed(group["weight_decay"]), part.state["square_avg"]
        squares.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if group["centered"]:
            mean = part.state["grad_avg"]
            mean.mul_(alpha).add_(gradient, alpha=1 - alpha)
            deviation = squares.addcmul(mean, mean, value=-1).sqrt_().add_(eps)
        else:
            deviation = squares.sqrt().add_(eps)
        if group["momentum"] > 0:
            buffer = part.state["momentum_buffer"]
            buffer.mul_(group["momentum"]).addcdiv_(gradient, deviation)
            part.parameter.add_(buffer, alpha=-group["lr"])
        else:
            part.parameter.addcdiv_(gradient, deviation, value=-group["lr"])


def rmsprop_defaults(
    lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool
) -> dict[str, Any]:
    """Return the options of RMSprop by name. Raises ValueError for one that is negative."""
    check_learning_rate(lr)
    check_epsilon(eps)
    check_not_negative("momentum", momentum)
    check_not_negative("weight_decay", weight_decay)
    check_not_negative("alpha", alpha)
    given = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
    return {**given, "weight_decay": weight_decay}


def rmsprop_extras(parameter: Tensor, group: Group) -> dict[str, Tensor]:
    """Return the buffers that momentum and centring need, zero."""
    names = [
        name for name, needed in (("momentum_buffer", group["momentum"] > 0), ("grad_avg", group["centered"])) if needed
    ]
    return {name: torch.zeros_like(parameter) for name in names}
