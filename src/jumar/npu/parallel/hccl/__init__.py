"""`init_process_group("hccl")`: collectives of emulated devices over Gloo.

`group` is the process group, `work` what its calls return, `limits` what HCCL does not take, `sharded_random` the
random numbers of DTensors, `futures` lets PyTorch's futures hold npu tensors.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from jumar.npu.parallel.hccl import futures, sharded_random

__all__ = ["install"]


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    from jumar.npu.parallel.hccl.group import EmulatedHCCL

    return EmulatedHCCL(store, rank, size, timeout)


def install() -> None:
    """Register the backend `hccl` for npu tensors."""
    if dist.is_available() and "HCCL" not in dir(dist.Backend):
        dist.Backend.register_backend("hccl", _create, devices=["npu"])
        sharded_random.install()
        futures.install()
