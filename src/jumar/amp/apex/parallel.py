"""`apex.parallel`: PyTorch's own wrappers under apex's names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import SyncBatchNorm

__all__ = ["DistributedDataParallel", "Reducer", "SyncBatchNorm", "convert_syncbn_model"]

_COMMUNICATION = frozenset(
    {
        "allreduce_always_fp32", "allreduce_communicators", "allreduce_trigger_params", "delay_allreduce",
        "gradient_average", "gradient_predivide_factor", "message_size", "num_allreduce_streams", "prof",
        "retain_allreduce_buffers", "shared_param",
    }
)  # fmt: skip


class DistributedDataParallel(nn.parallel.DistributedDataParallel):
    """Average gradients over the ranks; apex's options of how to communicate change no result and are not used."""

    def __init__(self, module: nn.Module, message_size: int = 10_000_000, **options: Any) -> None:
        unknown = sorted(set(options) - _COMMUNICATION)
        if unknown:
            raise TypeError(f"DistributedDataParallel got unexpected keyword arguments: {', '.join(unknown)}")
        super().__init__(module)


class Reducer:
    """Average gradients over the ranks when `reduce` is called."""

    def __init__(self, module_or_grads_list: Any) -> None:
        self._of = module_or_grads_list

    @torch.no_grad()
    def reduce(self) -> None:
        """Average the module's gradients, or the tensors of the list, in place."""
        from torch import distributed

        module = isinstance(self._of, nn.Module)
        tensors = [p.grad for p in self._of.parameters() if p.grad is not None] if module else self._of
        for tensor in tensors:
            distributed.all_reduce(tensor)
            tensor.div_(distributed.get_world_size())


def convert_syncbn_model(
    module: nn.Module,
    process_group: Any = None,
    channel_last: bool = False,  # noqa: ARG001  # apex's; PyTorch's layer takes either layout
) -> nn.Module:
    """Return the module with its batch normalizations computed over all ranks."""
    converted: nn.Module = SyncBatchNorm.convert_sync_batchnorm(module, process_group)  # type: ignore[no-untyped-call]
    return converted
