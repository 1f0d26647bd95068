"""RMSprop as `torch.optim.RMSprop` and as TensorFlow compute it. `centered`: Graves, arXiv:1308.0850."""

from __future__ import annotations

import torch

from jumar.amp.flat.formulas.formula import Formula, Group, decayed, number
from jumar.amp.flat.native.kernels import update
from jumar.amp.flat.run import Run

Tensor = torch.Tensor


class RMSpropFormula(Formula):
    """RMSprop with L2 weight decay."""

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the name of the mean of squares, and those that momentum and centring need."""
        momentum = ["momentum_buffer"] if number(group["momentum"]) > 0 else []
        return ("square_avg", *momentum, *(["grad_avg"] if group["centered"] else []))

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run, by our own kernel or block by block."""
        alpha, eps, lr, momentum = (number(group[name]) for name in ("alpha", "eps", "lr", "momentum"))
        names, decay = self.state_names(group), number(group["weight_decay"])
        options = (lr, alpha, eps, decay, momentum, run.factor, float(bool(group.get("maximize"))))
        if update("rmsprop", run, _in_order(names), options):
            return
        for parameter, given, (squares, *others), (scratch, deviation) in run.blocks(names, 2):
            gradient = decayed(parameter, given, group, scratch)
            squares.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
            if group["centered"]:
                mean = others[-1].lerp_(gradient, 1 - alpha)
                torch.addcmul(squares, mean, mean, value=-1, out=deviation).sqrt_().add_(eps)
            else:
                torch.sqrt(squares, out=deviation).add_(eps)
            if momentum > 0:
                others[0].mul_(momentum).addcdiv_(gradient, deviation)
                parameter.add_(others[0], alpha=-lr)
            else:
                parameter.addcdiv_(gradient, deviation, value=-lr)


class RMSpropTFFormula(RMSpropFormula):
    """RMSprop as TensorFlow computes it.

    The mean of squares begins at one, epsilon is added before the root, and the learning rate is applied inside the
    momentum with `lr_in_momentum`. `decoupled_decay` shrinks parameters by `weight_decay` itself.
    """

    def initial(self, name: str) -> float:
        """Return one for the mean of squares, else zero."""
        return 1.0 if name == "square_avg" else 0.0

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run, by our own kernel or block by block."""
        if update("rmsprop_tf", run, _in_order(self.state_names(group)), _tf_options(run, group)):
            return
        rate, eps, lr, momentum = 1 - group["alpha"], group["eps"], number(group["lr"]), group["momentum"]
        decouples = group["weight_decay"] != 0 and group.get("decoupled_decay")
        options = {**group, "weight_decay": 0} if decouples else group
        inside = bool(group.get("lr_in_momentum"))
        for parameter, given, (squares, *others), (scratch, deviation) in run.blocks(self.state_names(group), 2):
            if decouples:
                parameter.mul_(1 - group["weight_decay"])
            gradient = decayed(parameter, given, options, scratch)
            torch.mul(gradient, gradient, out=deviation).sub_(squares)
            squares.add_(deviation, alpha=rate)
            if group["centered"]:
                mean = others[-1].lerp_(gradient, rate)
                torch.addcmul(squares, mean, mean, value=-1, out=deviation).add_(eps).sqrt_()
            else:
                torch.add(squares, eps, out=deviation).sqrt_()
            if momentum <= 0:
                parameter.addcdiv_(gradient, deviation, value=-lr)
                continue
            others[0].mul_(momentum).addcdiv_(gradient, deviation, value=lr if inside else 1)
            parameter.add_(others[0], alpha=-1 if inside else -lr)


def _in_order(names: tuple[str, ...]) -> list[str | None]:
    return [name if name in names else None for name in ("square_avg", "momentum_buffer", "grad_avg")]


def _tf_options(run: Run, group: Group) -> list[float]:
    """Return the options of TensorFlow's form in the kernel's order: decay of the gradient, or of the weights."""
    decay = float(group["weight_decay"])
    decay, shrink = (0.0, 1 - decay) if group.get("decoupled_decay") else (decay, 1.0)
    rates = [number(group["lr"]), float(group["alpha"]), float(group["eps"]), decay, float(group["momentum"])]
    return [*rates, run.factor, float(bool(group.get("lr_in_momentum"))), shrink]
