"""Lamb: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", the first version."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from jumar.amp.flat.formulas.adam import move_moments
from jumar.amp.flat.formulas.formula import Formula, Group, number
from jumar.amp.flat.formulas.norm import norm_or_none
from jumar.amp.flat.formulas.sums import norms, spread
from jumar.amp.flat.native.kernels import update
from jumar.amp.flat.run import Run

Tensor = torch.Tensor
NAMES = ("exp_avg", "exp_avg_sq")
GREATEST_WEIGHT_NORM = 10.0


class LambFormula(Formula):
    """Lamb without correction of the bias to zero, weight norms clamped to [0, 10].

    `is_adam` leaves the trust ratio at 1. With `uses_global_norm` gradients are divided by `divisor`, their common
    norm over all groups, where it is above 1.
    """

    def __init__(self, *, is_adam: bool = False, uses_global_norm: bool = False) -> None:
        self.is_adam, self.uses_global_norm = is_adam, uses_global_norm
        self.divisor = 1.0

    def see(self, runs: Sequence[Run]) -> None:
        """Take the common norm of all gradients."""
        if self.uses_global_norm:
            norm = norm_or_none([run.gradient for run in runs])
            self.divisor = math.nan if norm is None else norm * (abs(runs[0].factor) if runs else 1.0)

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the two moments."""
        return NAMES

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run: its steps first, then their size from the norms of weights and steps."""
        if update("lamb", run, NAMES, self._options(run, group), tables=2):
            return
        step = run.kept.get("step")
        if step is None:
            step = run.kept["step"] = torch.zeros_like(run.parameter)
        begin = 0
        for parameter, given, (first, second), (scratch,) in run.blocks(NAMES, 1):
            gradient = torch.div(given, self.divisor, out=scratch) if not self.divisor <= 1 else given
            move_moments(first, second, gradient, group["betas"])
            torch.sqrt(second, out=scratch).add_(number(group["eps"]))
            part = torch.div(first, scratch, out=step[begin : begin + parameter.numel()])
            if group["weight_decay"] != 0:
                part.add_(parameter, alpha=number(group["weight_decay"]))
            begin += parameter.numel()
        lr = number(group["lr"])
        if self.is_adam:
            run.parameter.add_(step, alpha=-lr)
        elif len(run.pieces) == 1:
            run.parameter.add_(step, alpha=-lr * self._ratios(run, step).item())
        else:
            run.parameter.addcmul_(step, spread(run, self._ratios(run, step)), value=-lr)

    def _options(self, run: Run, group: Group) -> list[float]:
        beta1, beta2 = map(number, group["betas"])
        rates = [number(group["lr"]), beta1, beta2, number(group["eps"]), number(group["weight_decay"])]
        divisor = 1.0 if self.divisor <= 1 else self.divisor
        return [*rates, run.factor, divisor, float(self.is_adam)]

    def _ratios(self, run: Run, step: Tensor) -> Tensor:
        """Return each piece's ratio of the norm of its weights to the norm of its step; 1 where either is 0."""
        weights, steps = norms(run, run.parameter).clamp(0, GREATEST_WEIGHT_NORM), norms(run, step)
        return torch.where((weights == 0) | (steps == 0), 1.0, weights / steps)
