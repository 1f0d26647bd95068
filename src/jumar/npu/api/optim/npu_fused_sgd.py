"""`NpuFusedSGD`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import required

from jumar.amp.flat.formulas.sgd import SGDFormula
from jumar.amp.flat.optimizers.arguments import check_learning_rate, check_not_negative
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

__all__ = ["NpuFusedSGD"]


class NpuFusedSGD(NpuFusedOptimizerBase):
    """Stochastic gradient descent with momentum, as `torch.optim.SGD` computes it.

    Sutskever et al., "On the importance of initialization and momentum in deep learning". Raises
    ValueError for options out of range, and for Nesterov momentum with none or with dampening.
    """

    _counts_steps = False
    _late_options: ClassVar[Mapping[str, Any]] = {"nesterov": False}

    def __init__(
        self,
        params: Any,
        lr: Any = required,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if lr is not required:
            check_learning_rate(lr)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        if nesterov and (momentum <= 0.0 or not math.isclose(dampening, 0.0, abs_tol=1e-15)):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        self._has_momentum = False
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters; see `NpuFusedOptimizerBase.step`."""
        loss = super().step(closure)
        self._has_momentum = True
        return loss

    def _init_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        self._has_momentum = "momentum_buffer" in self.state[parameter]
        return super()._init_state(parameter, group)

    def _new_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        """The momentum begins as the first gradient, so that the first update is not dampened."""
        if group["momentum"] == 0 or parameter.grad is None:
            return {}
        gradient = parameter.grad
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        return {"momentum_buffer": gradient.detach().clone()}

    def _update(self, part: Part, group: Group) -> None:
        self._formula().update([part.run(2 if self._has_momentum else 1)], group)

    def _formula(self) -> SGDFormula:
        return SGDFormula()
