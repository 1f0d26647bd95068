"""AdamP: Heo et al., "AdamP: Slowing Down the Slowdown for Momentum Optimizers on Scale-invariant Weights"."""

from __future__ import annotations

import math

import torch

from jumar.amp.flat.formulas.adam import corrections, move_moments
from jumar.amp.flat.formulas.formula import Formula, Group, number
from jumar.amp.flat.native.kernels import update
from jumar.amp.flat.run import Piece, Run

Tensor = torch.Tensor
NAMES = ("exp_avg", "exp_avg_sq")


class AdamPFormula(Formula):
    """Adam whose step loses the part along the weights where these look scale-invariant.

    A weight of two or more dimensions counts as scale-invariant, by channel or as a layer, when the greatest cosine
    between it and its gradient is below `delta / sqrt(length)`; its weight decay is then multiplied by `wd_ratio`.
    """

    reads_steps = True

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the two moments."""
        return NAMES

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run: Adam's steps first, then their projections."""
        if update("adamp", run, NAMES, _options(run, group), tables=3):
            return
        step = run.kept.get("step")
        if step is None:
            step = run.kept["step"] = torch.zeros_like(run.parameter)
        step_size, divisor = corrections(run, group)
        begin, beta1 = 0, number(group["betas"][0])
        for parameter, gradient, (first, second), (root, other) in run.blocks(NAMES, 2):
            move_moments(first, second, gradient, group["betas"])
            mean = torch.lerp(first, gradient, 1 - beta1, out=other) if group["nesterov"] else first
            torch.sqrt(second, out=root).div_(divisor).add_(number(group["eps"]))
            torch.div(mean, root, out=step[begin : begin + parameter.numel()])
            begin += parameter.numel()
        shrinks = number(group["weight_decay"]) > 0
        shrink = 1 - number(group["lr"]) * number(group["weight_decay"])
        less = 1 - number(group["lr"]) * number(group["weight_decay"]) * number(group["wd_ratio"])
        for piece in run.pieces:
            part = slice(piece.start, piece.start + piece.length)
            projected = len(piece.shape) > 1 and project(
                run.parameter[part], run.gradient[part], step[part], piece, group
            )
            if shrinks:
                run.parameter[part].mul_(less if projected else shrink)
        run.parameter.add_(step, alpha=-step_size)


def project(weight: Tensor, gradient: Tensor, step: Tensor, piece: Piece, group: Group) -> bool:
    """Take the radial part out of `step`, in place, if the weight is scale-invariant; return whether it is."""
    if piece.length == 0:
        return False
    eps = number(group["eps"])
    for rows in (piece.shape[0], 1):
        by_row = weight.view(rows, -1), gradient.view(rows, -1), step.view(rows, -1)
        weights, gradients, steps = by_row
        weight_norm = weights.norm(dim=1).add_(eps)
        cosine = (gradients * weights).sum(dim=1).abs() / gradients.norm(dim=1).add_(eps) / weight_norm
        if cosine.max() < number(group["delta"]) / math.sqrt(weights.size(1)):
            direction = weights / weight_norm.unsqueeze(1)
            steps.sub_(direction * (direction * steps).sum(dim=1, keepdim=True))
            return True
    return False


def _options(run: Run, group: Group) -> list[float]:
    """Return the options in the kernel's order."""
    (beta1, beta2), (step_size, divisor) = map(number, group["betas"]), corrections(run, group)
    decay = number(group["lr"]) * number(group["weight_decay"])
    shrinks = [1 - max(decay, 0.0), 1 - max(decay, 0.0) * number(group["wd_ratio"])]
    own = [number(group["delta"]), float(bool(group["nesterov"]))]
    return [beta1, beta2, number(group["eps"]), divisor, run.factor, step_size, *shrinks, *own]
