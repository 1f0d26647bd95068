"""`torch_npu.distributed`, and its module `distributed_c10d`."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist

from jumar.npu.runtime.control import current_device

__all__ = [
    "all_gather_into_tensor_uneven",
    "is_available",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]

Tensor = torch.Tensor
_SUM: Any = dist.ReduceOp.SUM if dist.is_available() else None


def is_available() -> bool:
    """Return whether this PyTorch was built with collectives."""
    return dist.is_available()


def is_hccl_available() -> bool:
    """Return whether `init_process_group("hccl")` works."""
    return dist.is_available() and "hccl" in dist.Backend.backend_list


def reinit_process_group(group: Any = None, rebuild_link: bool = True) -> Any:
    """Return the group, or None where its links are only resumed; links of the emulated device do not break.

    Raises ValueError where no group is initialised.
    """
    found = dist.distributed_c10d._get_default_group() if group is None else group
    return found if rebuild_link else None


def all_gather_into_tensor_uneven(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Give every rank the inputs of all, one after the other along dimension 0; rank i gives `output_split_sizes[i]`.

    Without sizes the parts are equal. Returns the work where `async_op`; it is done already.
    """
    if not _both_on_npu(output, input):
        return None
    sizes = output_split_sizes or _equal_parts(output, group)
    for rank, part in enumerate(torch.split(output, sizes)):
        if rank == dist.get_rank(group):
            part.copy_(input)
        dist.broadcast(part, _global_rank(group, rank), group)
    return _done(group) if async_op else None


def reduce_scatter_tensor_uneven(
    output: Tensor,
    input: Tensor,
    input_split_sizes: list[int] | None = None,
    op: Any = _SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Combine the inputs over all ranks and keep the own part: `input_split_sizes[rank]` along dimension 0.

    Without sizes the parts are equal. Returns the work where `async_op`; it is done already.
    """
    if not _both_on_npu(output, input):
        return None
    sizes = input_split_sizes or _equal_parts(input, group)
    combined = input.clone()
    dist.all_reduce(combined, op, group)
    output.copy_(torch.split(combined, sizes)[dist.get_rank(group)])
    return _done(group) if async_op else None


def _both_on_npu(output: Tensor, given: Tensor) -> bool:
    if output.device.type == given.device.type == "npu":
        return True
    warnings.warn("Support for Tensors is limited to those of type npu", stacklevel=3)
    return False


def _equal_parts(tensor: Tensor, group: Any) -> list[int]:
    num_ranks = dist.get_world_size(group)
    return [tensor.shape[0] // num_ranks] * num_ranks


def _global_rank(group: Any, rank: int) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)


def _done(group: Any) -> Any:
    """Return a work that is done once all ranks have come here, which they have."""
    return dist.barrier(group, async_op=True, device_ids=[current_device()])
