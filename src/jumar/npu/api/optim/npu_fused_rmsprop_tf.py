"""`NpuFusedRMSpropTF`."""

from __future__ import annotations

from typing import Any

import torch

from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part
from jumar.npu.api.optim.npu_fused_rmsprop import RMSPROP_LATE_OPTIONS, rmsprop_defaults, rmsprop_extras

Tensor = torch.Tensor

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

    def _new_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        return {"square_avg": torch.ones_like(parameter), **rmsprop_extras(parameter, group)}

    def _update(self, part: Part, group: Group) -> None:
        rate = 1.0 - group["alpha"]
        gradient, squares = self._decayed(part, group), part.state["square_avg"]
        squares.add_(gradient.pow(2) - squares, alpha=rate)
        variance = squares
        if group["centered"]:
            mean = part.state["grad_avg"]
            mean.add_(gradient - mean, alpha=rate)
            variance = squares.addcmul(mean, mean, value=-1)
        self._move(part, gradient, variance.add(group["eps"]).sqrt_(), group)

    def _decayed(self, part: Part, group: Group) -> Tensor:
        """Apply the weight decay; return the gradient to use."""
        if group["weight_decay"] != 0 and group.get("decoupled_decay"):
            part.parameter.add_(part.parameter, alpha=-group["weight_decay"])
            return part.gradient
        return part.decayed(group["weight_decay"])

    def _move(self, part: Part, gradient: Tensor, deviation: Tensor, group: Group) -> None:
        if group["momentum"] <= 0:
            part.parameter.addcdiv_(gradient, deviation, value=-group["lr"])
            return
        inside = bool(group.get("lr_in_momentum"))
        buffer = part.state["momentum_buffer"]
        buffer.mul_(group["momentum"]).addcdiv_(gradient, deviation, value=group["lr"] if inside else 1)
        part.parameter.add_(buffer, alpha=-1 if inside else -group["lr"])
