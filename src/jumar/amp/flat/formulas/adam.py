"""Adam and AdamW as `torch.optim` computes them.

Kingma and Ba, "Adam: A Method for Stochastic Optimization"; `amsgrad`: Reddi et al., "On the Convergence of Adam and
Beyond"; Loshchilov and Hutter, "Decoupled Weight Decay Regularization".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from jumar.amp.flat.formulas.formula import Formula, Group, decayed, grad_scale, is_fused, number
from jumar.amp.flat.run import Run

Tensor = torch.Tensor


class AdamFormula(Formula):
    """Adam; with `is_decoupled`, or the group's `decoupled_weight_decay`, AdamW."""

    reads_steps = True

    def __init__(self, *, is_decoupled: bool = False) -> None:
        self._is_decoupled = is_decoupled

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the two moments, and of the greatest second one with `amsgrad`."""
        return ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []))

    def update(self, runs: Sequence[Run], group: Group) -> None:
        """Update all runs by one fused kernel, where PyTorch has it."""
        if not is_fused(runs[0]):
            super().update(runs, group)
            return
        decoupled = self._is_decoupled or group.get("decoupled_weight_decay")
        kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
        beta1, beta2 = group["betas"]
        kernel(
            [run.parameter for run in runs],
            [run.gradient for run in runs],
            [run.state["exp_avg"] for run in runs],
            [run.state["exp_avg_sq"] for run in runs],
            [run.state["max_exp_avg_sq"] for run in runs] if group["amsgrad"] else [],
            [run.steps.to(run.parameter.device) for run in runs],
            lr=number(group["lr"]),
            beta1=number(beta1),
            beta2=number(beta2),
            weight_decay=number(group["weight_decay"]),
            eps=number(group["eps"]),
            amsgrad=bool(group["amsgrad"]),
            maximize=bool(group.get("maximize")),
            grad_scale=grad_scale(runs),
        )

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run by plain operators."""
        step_size, root_of_correction = corrections(run, group)
        decoupled = self._is_decoupled or group.get("decoupled_weight_decay")
        options = {**group, "weight_decay": 0} if decoupled else group
        shrink = 1 - number(group["lr"]) * number(group["weight_decay"])
        for parameter, given, (first, second, *greatest), (scratch, root) in run.blocks(self.state_names(group), 2):
            gradient = decayed(parameter, given, options, scratch)
            if decoupled:
                parameter.mul_(shrink)
            move_moments(first, second, gradient, group["betas"])
            divisor = torch.maximum(greatest[0], second, out=greatest[0]) if greatest else second
            torch.sqrt(divisor, out=root).div_(root_of_correction).add_(number(group["eps"]))
            parameter.addcdiv_(first, root, value=-step_size)


def corrections(run: Run, group: Group) -> tuple[float, float]:
    """Return the step size and the root's divisor: what corrects the bias of both moments to zero."""
    (beta1, beta2), steps = map(number, group["betas"]), run.steps.item()
    return number(group["lr"]) / (1 - beta1**steps), math.sqrt(1 - beta2**steps)


def move_moments(first: Tensor, second: Tensor, gradient: Tensor, betas: Sequence[float]) -> None:
    """Move the running means of the gradient and of its square, in place."""
    beta1, beta2 = map(number, betas)
    first.lerp_(gradient, 1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
