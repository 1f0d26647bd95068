"""`NpuFusedAdamP`."""

from __future__ import annotations

from typing import Any

from jumar.amp.flat.formulas.adamp import AdamPFormula
from jumar.npu.api.optim.npu_fused_optim_base import NpuFusedOptimizerBase

__all__ = ["NpuFusedAdamP"]


class NpuFusedAdamP(NpuFusedOptimizerBase):
    """AdamP: Adam whose step loses the part along the weights where these look scale-invariant.

    Heo et al., "AdamP: Slowing Down the Slowdown for Momentum Optimizers on Scale-invariant Weights".
    A weight of two or more dimensions counts as scale-invariant, by channel or as a layer, when the
    greatest cosine between it and its gradient is below `delta / sqrt(length)`; its weight decay is then
    multiplied by `wd_ratio`. Options are not checked, as the vendor does not.
    """

    _combines_first = True

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "delta": delta,
            "wd_ratio": wd_ratio,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def _formula(self) -> AdamPFormula:
        return AdamPFormula()
