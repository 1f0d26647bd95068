"""`torch_npu.distributed.fsdp`."""

from __future__ import annotations

from typing import Any

__all__ = ["fully_shard"]


def fully_shard(*args: Any, **kwargs: Any) -> Any:
    """Do what `torch.distributed.fsdp.fully_shard` does."""
    from torch.distributed.fsdp import fully_shard as plain

    return plain(*args, **kwargs)
