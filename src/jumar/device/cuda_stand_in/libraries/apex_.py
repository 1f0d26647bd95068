"""Optimizers and layer norms of NVIDIA's apex, computed by PyTorch's own operators instead of CUDA kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from jumar.npu.api.alias import apex_finder


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


class _RMSNorm(nn.RMSNorm):
    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, **_options: Any):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)


def install() -> None:
    """Let `import apex` resolve, with PyTorch's classes in the places of CUDA kernels."""
    if not apex_finder.install():
        return
    from jumar.npu.api.apex import normalization, optimizers

    replaced: list[tuple[Any, dict[str, Any]]] = [
        (optimizers, {"FusedAdam": FusedAdam, "FusedSGD": FusedSGD}),
        (normalization, {"FusedLayerNorm": nn.LayerNorm, "MixedFusedLayerNorm": nn.LayerNorm}),
        (normalization, {"FusedRMSNorm": _RMSNorm, "MixedFusedRMSNorm": _RMSNorm}),
    ]
    for module, classes in replaced:
        for name, found in classes.items():
            setattr(module, name, found)
