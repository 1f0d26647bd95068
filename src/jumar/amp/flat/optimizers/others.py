"""RMSpropTF, Lamb, AdamP and BertAdam, which `torch.optim` lacks: options as torch_npu's fused optimizers have them."""

from __future__ import annotations

from typing import Any

from jumar.amp.flat.formulas.adamp import AdamPFormula
from jumar.amp.flat.formulas.bert_adam import AFTER_WARMUP, BertAdamFormula
from jumar.amp.flat.formulas.formula import Formula
from jumar.amp.flat.formulas.lamb import LambFormula
from jumar.amp.flat.formulas.rmsprop import RMSpropTFFormula
from jumar.amp.flat.mixin import FlatOptimizer
from jumar.amp.flat.optimizers.arguments import (
    RMSPROP_LATE_OPTIONS,
    bert_adam_defaults,
    check_betas,
    check_epsilon,
    check_learning_rate,
    check_not_negative,
    rmsprop_defaults,
)


class RMSpropTF(FlatOptimizer):
    """RMSprop as TensorFlow computes it, over flat buffers (`FlatOptimizer`).

    The mean of squares begins at one, epsilon is added before the root, and the learning rate is applied inside the
    momentum unless `lr_in_momentum=False`. `decoupled_decay` shrinks the parameters by `weight_decay` itself, without
    the learning rate. Raises ValueError for options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
    ) -> None:
        more = {"decoupled_decay": decoupled_decay, "lr_in_momentum": lr_in_momentum}
        super().__init__(params, rmsprop_defaults(lr, alpha, eps, weight_decay, momentum, centered) | more)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in RMSPROP_LATE_OPTIONS.items():
                group.setdefault(name, value)

    def _make_formula(self) -> Formula:
        return RMSpropTFFormula()


class Lamb(FlatOptimizer):
    """Lamb without correction of the bias to zero, weight norms clamped to [0, 10], over flat buffers.

    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", the first version.
    `adam=True` leaves the trust ratio at 1. `use_global_grad_norm=True` divides all gradients by their common norm
    where it is above 1. Raises ValueError for options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_betas(betas)
        check_epsilon(eps)
        check_not_negative("weight_decay", weight_decay)
        self.adam, self.use_global_grad_norm = adam, use_global_grad_norm
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _make_formula(self) -> Formula:
        return LambFormula(is_adam=self.adam, uses_global_norm=self.use_global_grad_norm)


class AdamP(FlatOptimizer):
    """AdamP over flat buffers: Adam whose step loses the part along the weights where these look scale-invariant.

    Heo et al., "AdamP: Slowing Down the Slowdown for Momentum Optimizers on Scale-invariant Weights". A weight of two
    or more dimensions counts as scale-invariant, by channel or as a layer, when the greatest cosine between it and its
    gradient is below `delta / sqrt(length)`; its weight decay is then multiplied by `wd_ratio`. Raises ValueError for
    options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        check_learning_rate(lr)
        check_betas(betas)
        check_epsilon(eps)
        check_not_negative("weight_decay", weight_decay)
        more = {"delta": delta, "wd_ratio": wd_ratio, "nesterov": nesterov}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **more})

    def _make_formula(self) -> Formula:
        return AdamPFormula()


class BertAdam(FlatOptimizer):
    """Adam as BERT was trained with, over flat buffers: no correction of the bias, decoupled decay, a schedule.

    `t_total` is the number of steps of the schedule (-1: constant learning rate), `warmup` the part of it in which the
    rate rises. Gradients are clipped to `max_grad_norm` (not above 0: never) over all parameters of a group, device
    and dtype together, as torch_npu's optimizer does, where the original clips each by itself; the optimizer-wide
    value counts. The state has the number of steps, so a resumed run goes on in its schedule. Raises ValueError for
    options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
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
        super().__init__(params, bert_adam_defaults(*rates, list(AFTER_WARMUP)))
        self.max_grad_norm = max_grad_norm

    def _make_formula(self) -> Formula:
        return BertAdamFormula(self.max_grad_norm)
