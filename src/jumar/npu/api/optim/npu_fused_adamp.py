"""`NpuFusedAdamP`."""

from __future__ import annotations

import math
from typing import Any

import torch

from jumar.npu.api.optim.npu_fused_adam import adam_moments, adam_scale
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

__all__ = ["NpuFusedAdamP"]


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """AdamP: Adam whose step loses the part along the weights where these look scale-invariant.

    Heo et al., "AdamP: Slowing Down the Slowdown for Momentum Optimizers on Scale-invariant Weights".
    A weight of two or more dimensions counts as scale-invariant, by channel or as a layer, when the
    greatest cosine between it and its gradient is below `delta / sqrt(length)`; its weight decay is then
    multiplied by `wd_ratio`. Options are not checked, as the vendor does not.
    """

    _combines_first = True
    _state_names = ("exp_avg", "exp_avg_sq")
    _work_names = ("perturb", "wd_ratio")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "delta": delta,
            "wd_ratio": wd_ratio,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def _update(self, part: Part, group: Group) -> None:
        beta1, decay = group["betas"][0], group["weight_decay"]
        first, second = adam_moments(part, part.gradient, group["betas"])
        step_size, denominator = adam_scale(part, second, group)
        if group["nesterov"]:
            first = beta1 * first + (1 - beta1) * part.gradient
        perturb, ratio = part.work["perturb"].copy_(first / denominator), part.work["wd_ratio"]
        pieces = zip(
            part.split(part.parameter), part.split(part.gradient), part.split(perturb), part.split(ratio), strict=True
        )
        for weight, gradient, step, decay_ratio in pieces:
            decay_ratio.fill_(_project(weight, gradient, step, group) if weight.dim() > 1 else 1)
        if decay > 0:
            part.parameter.mul_(1 - group["lr"] * decay * ratio)
        part.parameter.add_(perturb, alpha=-step_size)


def _project(weight: Tensor, gradient: Tensor, step: Tensor, group: Group) -> float:
    """Take the radial part out of `step`, in place, if the weight is scale-invariant; return the decay's factor."""
    eps = group["eps"]
    for rows in (weight.size(0), 1):
        flat_weight, flat_gradient, flat_step = (tensor.view(rows, -1) for tensor in (weight, gradient, step))
        weight_norm = flat_weight.norm(dim=1).add_(eps)
        cosine = (flat_gradient * flat_weight).sum(dim=1).abs() / flat_gradient.norm(dim=1).add_(eps) / weight_norm
        if cosine.max() < group["delta"] / math.sqrt(flat_weight.size(1)):
            direction = flat_weight / weight_norm.unsqueeze(1)
            flat_step.sub_(direction * (direction * flat_step).sum(dim=1, keepdim=True))
            return float(group["wd_ratio"])
    return 1.0
