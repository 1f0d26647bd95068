"""SGD as `torch.optim.SGD` computes it.

Sutskever et al., "On the importance of initialization and momentum in deep learning".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jumar.amp.flat.formulas.formula import Formula, Group, decayed, grad_scale, is_fused, number
from jumar.amp.flat.run import Run


class SGDFormula(Formula):
    """Stochastic gradient descent with momentum, which begins as the first gradient, not dampened."""

    reads_steps = True  # the first differs from the others
    shows_steps = False

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the momentum's name, where there is momentum."""
        return ("momentum_buffer",) if number(group["momentum"]) != 0 else ()

    def update(self, runs: Sequence[Run], group: Group) -> None:
        """Update runs by one fused kernel for all that are in their first step and one for the others."""
        if not is_fused(runs[0]) or _is_wrong(runs[0].parameter):
            super().update(runs, group)
            return
        momentum = number(group["momentum"])
        first = [run for run in runs if momentum and run.first_step()]
        later = [run for run in runs if not (momentum and run.first_step())]
        for chosen, is_first in ((first, True), (later, False)):
            if chosen:
                torch._fused_sgd_(
                    [run.parameter for run in chosen],
                    [run.gradient for run in chosen],
                    [run.state["momentum_buffer"] for run in chosen] if momentum else [],
                    weight_decay=number(group["weight_decay"]),
                    momentum=momentum,
                    lr=number(group["lr"]),
                    dampening=number(group["dampening"]),
                    nesterov=bool(group["nesterov"]),
                    maximize=bool(group.get("maximize")),
                    is_first_step=is_first,
                    grad_scale=grad_scale(chosen),
                )

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run by plain operators."""
        names, momentum, lr = self.state_names(group), number(group["momentum"]), number(group["lr"])
        is_first = bool(names) and run.first_step()
        for parameter, given, state, (scratch, other) in run.blocks(names, 2):
            gradient = decayed(parameter, given, group, scratch)
            if state:
                buffer = state[0]
                if is_first:
                    buffer.copy_(gradient)
                else:
                    buffer.mul_(momentum).add_(gradient, alpha=1 - number(group["dampening"]))
                nesterov = group["nesterov"]
                gradient = torch.add(gradient, buffer, alpha=momentum, out=other) if nesterov else buffer
            parameter.add_(gradient, alpha=-lr)


def _is_wrong(parameter: torch.Tensor) -> bool:
    """Return whether PyTorch's fused kernel must not be used.

    NOTE: for 16-bit types on the CPU, `torch._fused_sgd_` (2.13) gives wrong updates from 16 elements on: one step of
    32 bfloat16 elements with lr=0.1 is 0.34 off. tests/amp/test_amp_step.py holds it against the plain loop.
    """
    return parameter.device.type == "cpu" and parameter.dtype in {torch.bfloat16, torch.float16}
