"""BertAdam: Adam as BERT was trained with (github.com/google-research/bert, optimization.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch

from jumar.amp.flat.formulas.adam import move_moments
from jumar.amp.flat.formulas.formula import Formula, Group, number
from jumar.amp.flat.native.kernels import update
from jumar.amp.flat.run import Run

NAMES = ("exp_avg", "exp_avg_sq")
AFTER_WARMUP: dict[str, Callable[[float, float], float]] = {
    "warmup_cosine": lambda progress, _: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "warmup_constant": lambda *_: 1.0,
    "warmup_linear": lambda progress, warmup: max((progress - 1.0) / (warmup - 1.0), 0.0),
    "warmup_poly": lambda progress, _: (1.0 - progress) ** 0.5,
}
"""Factor of the learning rate after the warm-up, by schedule: of the part of `t_total` done and of the warm-up."""


class BertAdamFormula(Formula):
    """Adam without correction of the bias to zero, with decoupled weight decay, clipping and a schedule.

    Gradients are clipped to `max_grad_norm` (not above 0: never) over all parameters of a group and dtype together, as
    the fused optimizer of torch_npu does; the original clips each by itself.
    """

    reads_steps = True
    schedules: ClassVar[Mapping[str, Callable[[float, float], float]]] = AFTER_WARMUP

    def __init__(self, max_grad_norm: float) -> None:
        self.max_grad_norm = max_grad_norm

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the two moments."""
        return NAMES

    def update(self, runs: Sequence[Run], group: Group) -> None:
        """Clip the gradients of all runs together, then update each."""
        if self.max_grad_norm > 0:
            wide = torch.promote_types(runs[0].gradient.dtype, torch.float32)
            own = [torch.linalg.vector_norm(run.gradient, dtype=wide) * abs(run.factor) for run in runs]
            scale = self.max_grad_norm / (torch.linalg.vector_norm(torch.stack(own)).item() + 1e-6)
            for run in runs:
                run.factor *= min(scale, 1.0)
        super().update(runs, group)

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run, by our own kernel or block by block."""
        lr, decay, eps = self.learning_rate(run, group), number(group["weight_decay"]), number(group["e"])
        if update("bert_adam", run, (*NAMES, None), (lr, group["b1"], group["b2"], eps, decay, run.factor)):
            return
        for parameter, gradient, (first, second), (scratch, step) in run.blocks(NAMES, 2):
            move_moments(first, second, gradient, (group["b1"], group["b2"]))
            torch.sqrt(second, out=scratch).add_(eps)
            torch.div(first, scratch, out=step)
            if decay > 0:
                step.add_(parameter, alpha=decay)
            parameter.add_(step, alpha=-lr)

    def learning_rate(self, run: Run, group: Group) -> float:
        """Return the rate of this step; progress counts the steps done before it."""
        if group["t_total"] == -1:
            return number(group["lr"])
        warmup: float = group["warmup"]
        progress = (float(run.steps.item()) - 1) / float(group["t_total"])
        if progress < warmup:
            return number(group["lr"]) * (progress / warmup)
        return float(number(group["lr"]) * self.schedules[group["schedule"]](progress, warmup))
