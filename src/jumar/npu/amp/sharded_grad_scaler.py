"""`torch_npu.npu.amp.sharded_grad_scaler._ShardedGradScaler`: the scaler of FSDP on the npu."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

__all__: list[str] = []


class _ShardedGradScaler(ShardedGradScaler):
    """PyTorch's scaler of sharded gradients, which asks all ranks whether one overflowed, for npu tensors."""

    def __init__(
        self,
        device: str = "npu",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        group = dist.group.WORLD if process_group is None else process_group
        super().__init__(device, init_scale, backoff_factor, growth_factor, growth_interval, enabled, group)
