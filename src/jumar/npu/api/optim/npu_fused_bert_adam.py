"""`NpuFusedBertAdam`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import required

from jumar.amp.flat.formulas.bert_adam import AFTER_WARMUP, BertAdamFormula
from jumar.amp.flat.optimizers.arguments import bert_adam_defaults
from jumar.npu.api.optim.npu_fused_optim_base import Group, NpuFusedOptimizerBase

Tensor = torch.Tensor

__all__ = ["NpuFusedBertAdam"]


def _warmup_cosine(progress: float) -> Any:
    # NOTE: the vendor gives torch.cos a number, which is a TypeError; so this schedule ends with its warm-up there
    # and here.
    return 0.5 * (1.0 + torch.cos(math.pi * progress))  # type: ignore[arg-type]


class _VendorsFormula(BertAdamFormula):
    """BertAdam's formula with the vendor's schedules."""

    schedules: ClassVar[Mapping[str, Callable[[float, float], Any]]] = {
        **AFTER_WARMUP,
        "warmup_cosine": lambda progress, _: _warmup_cosine(progress),
    }


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """Adam as BERT was trained with: no correction of the bias to zero, decoupled weight decay, a schedule.

    `t_total` is the number of steps of the schedule (-1: constant learning rate), `warmup` the part of it
    in which the rate rises. Gradients are clipped to `max_grad_norm` (not above 0: never) over all
    parameters of a group and dtype together, where the original clips each by itself; the first
    optimizer-wide value counts, not a group's own. The number of steps is not kept in the state, so the
    schedule of a resumed run begins again. Raises ValueError for options out of range.
    """

    _counts_steps = False

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
        rates = (lr, warmup, t_total, schedule, b1, b2, e, weight_decay, max_grad_norm)
        defaults = bert_adam_defaults(*rates, list(AFTER_WARMUP))
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

    def _formula(self) -> BertAdamFormula:
        return _VendorsFormula(self.max_grad_norm)
