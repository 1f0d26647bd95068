"""`NpuFusedBertAdam`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import required

from jumar.npu.api.optim.checks import check_epsilon, check_learning_rate
from jumar.npu.api.optim.npu_fused_adam import adam_moments
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase, Part

Tensor = torch.Tensor

__all__ = ["NpuFusedBertAdam"]


def _warmup_cosine(progress: float) -> Any:
    # NOTE: the vendor gives torch.cos a number, which is a TypeError; so this schedule ends with its warm-up there
    # and here.
    return 0.5 * (1.0 + torch.cos(math.pi * progress))  # type: ignore[arg-type]


_AFTER_WARMUP: dict[str, Callable[[float, float], Any]] = {
    "warmup_cosine": lambda progress, _: _warmup_cosine(progress),
    "warmup_constant": lambda *_: 1.0,
    "warmup_linear": lambda progress, warmup: max((progress - 1.0) / (warmup - 1.0), 0.0),
    "warmup_poly": lambda progress, _: (1.0 - progress) ** 0.5,
}
"""Factor of the learning rate after the warm-up, by schedule: of the part of `t_total` done and of the warm-up."""


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """Adam as BERT was trained with: no correction of the bias to zero, decoupled weight decay, a schedule.

    `t_total` is the number of steps of the schedule (-1: constant learning rate), `warmup` the part of it
    in which the rate rises. Gradients are clipped to `max_grad_norm` (not above 0: never) over all
    parameters of a group and dtype together, where the original clips each by itself; the first
    optimizer-wide value counts, not a group's own. The number of steps is not kept in the state, so the
    schedule of a resumed run begins again. Raises ValueError for options out of range.
    """

    _counts_steps = False
    _state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = required,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.999,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        if lr is not required:
            check_learning_rate(lr)
        if (warmup < 0.0 and warmup != -1) or warmup >= 1.0:
            raise ValueError(f"Invalid warmup: {warmup}")
        if schedule not in _AFTER_WARMUP:
            raise ValueError(f"Invalid schedule parameter: {schedule}")
        for name, value in (("b1", b1), ("b2", b2)):
            if not 0.0 <= value < 1.0:
                raise ValueError(f"Invalid {name} parameter: {value}")
        check_epsilon(e)
        defaults = {
            "lr": lr,
            "schedule": schedule,
            "warmup": warmup,
            "t_total": t_total,
            "b1": b1,
            "b2": b2,
            "e": e,
            "weight_decay": weight_decay,
            "max_grad_norm": max_grad_norm,
        }
        self.max_grad_norm = max_grad_norm
        super().__init__(params, defaults)

    def _init_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        state = self.state[parameter]
        if "exp_avg" in state and group["t_total"] != -1:
            self._warn(
                "schedule",
                "the loaded state does not say how many steps were taken, so the schedule of the learning rate begins "
                "again; keep lr constant (t_total=-1) and schedule it with torch.optim.lr_scheduler",
            )
        state.setdefault("step", 0)
        return super()._init_state(parameter, group)

    def _update(self, part: Part, group: Group) -> None:
        gradient = part.gradient
        if self.max_grad_norm > 0:
            scale = self.max_grad_norm / (gradient.float().norm() + 1e-6)
            if scale < 1.0:
                gradient.mul_(scale)
        first, second = adam_moments(part, gradient, (group["b1"], group["b2"]))
        update = first / (second.sqrt() + group["e"])
        if group["weight_decay"] > 0.0:
            update += group["weight_decay"] * part.parameter
        part.parameter.sub_(self._learning_rate(part, group) * update)

    def _learning_rate(self, part: Part, group: Group) -> Any:
        """Return the rate of this step; progress counts the steps done before it."""
        if group["t_total"] == -1:
            return group["lr"]
        progress, warmup = (part.num_steps - 1) / group["t_total"], group["warmup"]
        if progress < warmup:
            return group["lr"] * (progress / warmup)
        return group["lr"] * _AFTER_WARMUP[group["schedule"]](progress, warmup)
