"""Adadelta as `torch.optim.Adadelta` computes it: Zeiler, "ADADELTA: An Adaptive Learning Rate Method"."""

from __future__ import annotations

import torch

from jumar.amp.flat.formulas.formula import Formula, Group, decayed, number
from jumar.amp.flat.native.kernels import update
from jumar.amp.flat.run import Run

NAMES = ("square_avg", "acc_delta")


class AdadeltaFormula(Formula):
    """Adadelta with L2 weight decay."""

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the running means of squared gradients and of squared steps."""
        return NAMES

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run, by our own kernel or block by block."""
        rho, eps, lr = number(group["rho"]), number(group["eps"]), number(group["lr"])
        options = (lr, rho, eps, number(group["weight_decay"]), run.factor, float(bool(group.get("maximize"))))
        if update("adadelta", run, (*NAMES, None), options):
            return
        for parameter, given, (squares, deltas), (scratch, deviation, delta) in run.blocks(NAMES, 3):
            gradient = decayed(parameter, given, group, scratch)
            squares.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
            torch.add(squares, eps, out=deviation).sqrt_()
            torch.add(deltas, eps, out=delta).sqrt_().div_(deviation).mul_(gradient)
            deltas.mul_(rho).addcmul_(delta, delta, value=1 - rho)
            parameter.add_(delta, alpha=-lr)
