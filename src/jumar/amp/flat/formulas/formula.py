"""`Formula`: how one optimizer updates runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from jumar.amp.flat.run import Run

Tensor = torch.Tensor
Group = Mapping[str, Any]


class Formula:
    """How one optimizer updates parameters in flat tensors. A subclass gives `state_names` and `update`."""

    reads_steps: ClassVar[bool] = False
    """Whether an update depends on the number of steps, so that a run has parameters of one number only."""
    shows_steps: ClassVar[bool] = True
    """Whether `optimizer.state[parameter]["step"]` exists."""

    def state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the buffers that a parameter has, each of its shape and dtype."""
        raise NotImplementedError

    def initial(self, name: str) -> float:
        """Return what a buffer is filled with before the first update."""
        return 0.0

    def see(self, runs: Sequence[Run]) -> None:
        """Look at all runs of a step, of every group, before the first is updated."""

    def update(self, runs: Sequence[Run], group: Group) -> None:
        """Update the parameters and states of the runs of one group, device and dtype, in place."""
        for run in runs:
            self.update_run(run, group)

    def update_run(self, run: Run, group: Group) -> None:
        """Update one run, in place."""
        raise NotImplementedError


def number(value: Any) -> float:
    """Return an option as a number: a learning rate may be a tensor."""
    found: float = value.item() if isinstance(value, torch.Tensor) else value
    return found


def decayed(parameter: Tensor, gradient: Tensor, group: Group, out: Tensor) -> Tensor:
    """Return the gradient, negated with `maximize`, with L2 weight decay: itself, or `out`."""
    decay = number(group["weight_decay"])
    if group.get("maximize"):
        torch.neg(gradient, out=out)
        return out.add_(parameter, alpha=decay) if decay != 0 else out
    return torch.add(gradient, parameter, alpha=decay, out=out) if decay != 0 else gradient


FUSED_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def is_fused(run: Run) -> bool:
    """Return whether PyTorch has one kernel for SGD, Adam and AdamW on this device and dtype."""
    return run.parameter.device.type in {"cpu", "cuda"} and run.parameter.dtype in FUSED_DTYPES


def grad_scale(runs: Sequence[Run]) -> Tensor | None:
    """Return what PyTorch's fused kernels divide the gradient by, in place: the inverse of the runs' factor."""
    factor = runs[0].factor
    return None if factor == 1 else torch.tensor(1 / factor, dtype=torch.float32, device=runs[0].parameter.device)
