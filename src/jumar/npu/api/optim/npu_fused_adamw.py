"""`NpuFusedAdamW`."""

from __future__ import annotations

from typing import Any

from jumar.amp.flat.formulas.adam import AdamFormula
from jumar.npu.api.optim.npu_fused_adam import NpuFusedAdam

__all__ = ["NpuFusedAdamW"]


class NpuFusedAdamW(NpuFusedAdam):
    """Adam with decoupled weight decay, as `torch.optim.AdamW` computes it.

    Loshchilov and Hutter, "Decoupled Weight Decay Regularization". Raises ValueError for options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)

    def _formula(self) -> AdamFormula:
        return AdamFormula(is_decoupled=True)
