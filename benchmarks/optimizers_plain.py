"""RMSpropTF, Lamb, AdamP and BertAdam as one writes them: the published formula, a parameter at a time."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch.optim import Optimizer


class _Loop(Optimizer):
    defaults_: ClassVar[dict[str, Any]] = {}

    def __init__(self, params: Any, **options: Any) -> None:
        super().__init__(params, {**self.defaults_, **options})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    if not state:
                        state["step"] = 0
                        self.begin(state, parameter)
                    state["step"] += 1
                    self.move(parameter, parameter.grad, state, group)

    def begin(self, state: dict[str, Any], parameter: Any) -> None:
        state["m"], state["v"] = torch.zeros_like(parameter), torch.zeros_like(parameter)

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError


class RMSpropTF(_Loop):
    defaults_: ClassVar[dict[str, Any]] = {"lr": 1e-2, "alpha": 0.9, "eps": 1e-10, "momentum": 0.0}

    def begin(self, state: dict[str, Any], parameter: Any) -> None:
        state["v"], state["buffer"] = torch.ones_like(parameter), torch.zeros_like(parameter)

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        square = state["v"]
        square.add_(gradient.pow(2) - square, alpha=1 - group["alpha"])
        state["buffer"].mul_(group["momentum"]).addcdiv_(gradient, square.add(group["eps"]).sqrt_(), value=group["lr"])
        parameter.add_(state["buffer"], alpha=-1)


class Lamb(_Loop):
    defaults_: ClassVar[dict[str, Any]] = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0}

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        state["m"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        state["v"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        step = state["m"] / state["v"].sqrt().add_(group["eps"])
        if group["weight_decay"] != 0:
            step.add_(parameter, alpha=group["weight_decay"])
        weight_norm, step_norm = parameter.norm().clamp(0, 10), step.norm()
        ratio = 1.0 if weight_norm == 0 or step_norm == 0 else (weight_norm / step_norm).item()
        parameter.add_(step, alpha=-group["lr"] * ratio)


class AdamP(_Loop):
    defaults_: ClassVar[dict[str, Any]] = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "delta": 0.1, "wd_ratio": 0.1,
    }  # fmt: skip

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        state["m"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        state["v"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = (state["v"].sqrt() / math.sqrt(1 - beta2 ** state["step"])).add_(group["eps"])
        step, ratio = state["m"] / denominator, 1.0
        if parameter.dim() > 1:
            step, ratio = self.projected(parameter, gradient, step, group)
        if group["weight_decay"] > 0:
            parameter.mul_(1 - group["lr"] * group["weight_decay"] * ratio)
        parameter.add_(step, alpha=-group["lr"] / (1 - beta1 ** state["step"]))

    @staticmethod
    def projected(parameter: Any, gradient: Any, step: Any, group: dict[str, Any]) -> tuple[Any, float]:
        for rows in (parameter.size(0), 1):
            weights, gradients, steps = (tensor.reshape(rows, -1) for tensor in (parameter, gradient, step))
            cosine = torch.nn.functional.cosine_similarity(gradients, weights, dim=1, eps=group["eps"]).abs()
            if cosine.max() < group["delta"] / math.sqrt(weights.size(1)):
                unit = weights / weights.norm(dim=1, keepdim=True).add_(group["eps"])
                return (steps - unit * (unit * steps).sum(1, keepdim=True)).view_as(parameter), group["wd_ratio"]
        return step, 1.0


class BertAdam(_Loop):
    """Its clipping is over the group, as in torch_npu's, so that both compute the same."""

    defaults_: ClassVar[dict[str, Any]] = {
        "lr": 1e-3,
        "b1": 0.9,
        "b2": 0.999,
        "e": 1e-6,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
    }

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], group["max_grad_norm"])
        super().step(closure)

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["m"].mul_(group["b1"]).add_(gradient, alpha=1 - group["b1"])
        state["v"].mul_(group["b2"]).addcmul_(gradient, gradient, value=1 - group["b2"])
        update = state["m"] / (state["v"].sqrt() + group["e"])
        if group["weight_decay"] > 0:
            update += group["weight_decay"] * parameter
        parameter.sub_(group["lr"] * update)


PLAIN: dict[str, type[Optimizer]] = {"RMSpropTF": RMSpropTF, "Lamb": Lamb, "AdamP": AdamP, "BertAdam": BertAdam}
