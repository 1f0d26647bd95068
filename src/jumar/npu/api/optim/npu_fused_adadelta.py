"""`NpuFusedAdadelta`."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.api.optim.checks import check_epsilon, check_learning_rate, check_not_negative
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

__all__ = ["NpuFusedAdadelta"]


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """Adadelta with L2 weight decay, as `torch.optim.Adadelta` computes it.

    Zeiler, "ADADELTA: An Adaptive Learning Rate Method". Raises ValueError for options out of range.
    """

    _state_names = ("square_avg", "acc_delta")

    def __init__(
        self, params: Any, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        check_learning_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_epsilon(eps)
        check_not_negative("weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _update(self, part: Part, group: Group) -> None:
        rho, eps = group["rho"], group["eps"]
        squares, deltas = part.state["square_avg"], part.state["acc_delta"]
        gradient = part.decayed(group["weight_decay"])
        squares.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        deviation = squares.add(eps).sqrt_()
        delta = deltas.add(eps).sqrt_().div_(deviation).mul_(gradient)
        part.parameter.add_(delta, alpha=-group["lr"])
        deltas.mul_(rho).addcmul_(delta, delta, value=1 - rho)
