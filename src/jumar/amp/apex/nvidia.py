"""Optimizers of NVIDIA's Apex, computed by PyTorch's own operators instead of CUDA kernels."""

from __future__ import annotations

from typing import Any

import torch


class FusedAdam(torch.optim.Adam):
    """Adam, with decoupled weight decay unless `adam_w_mode` is false (nvidia.github.io/apex/optimizers.html)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
        **_options: Any,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        if not bias_correction:
            raise NotImplementedError("FusedAdam(bias_correction=False) has no counterpart in torch.optim.")
        super().__init__(
            params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, decoupled_weight_decay=adam_w_mode
        )


class FusedSGD(torch.optim.SGD):
    """Stochastic gradient descent; weight decay goes into the gradient before the momentum."""

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        **_options: Any,
    ) -> None:
        if wd_after_momentum:
            raise NotImplementedError("FusedSGD(wd_after_momentum=True) has no counterpart in torch.optim.")
        super().__init__(
            params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov
        )
