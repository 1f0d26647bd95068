"""`torch_npu.utils.syncbatchnorm.SyncBatchNorm`: the autograd function behind `torch.nn.SyncBatchNorm`."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import _functions

__all__ = ["SyncBatchNorm"]

_Base: Any = _functions.SyncBatchNorm


class SyncBatchNorm(_Base):  # type: ignore[misc]
    """PyTorch's own function, whose parts (`batch_norm_stats` …) the emulated device has."""

    @staticmethod
    def forward(
        ctx: Any,
        input_tensor: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        running_mean: torch.Tensor,
        running_var: torch.Tensor,
        eps: float,
        momentum: float,
        process_group: Any,
        world_size: int,
    ) -> Any:
        """Normalise by the mean and variance over all ranks."""
        return _Base.forward(
            ctx, input_tensor, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size
        )

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
        """Return the gradients of `forward`'s arguments."""
        return _Base.backward(ctx, grad_output)
