"""The C++ functions behind `torch.nn.DataParallel`, which only a CUDA build of PyTorch has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Tensor = torch.Tensor


def _to(tensor: Tensor, index: int) -> Tensor:
    return tensor.to("cpu" if index < 0 else f"cuda:{index}")


def scatter(
    tensor: Tensor, devices: Sequence[int], chunk_sizes: Sequence[int] | None, dim: int, _streams: Any = None
) -> tuple[Tensor, ...]:
    """Return the chunks of `tensor` along `dim`, one on each device (as many as there are chunks)."""
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else torch.split(tensor, list(chunk_sizes), dim)
    return tuple(_to(chunk, index) for chunk, index in zip(chunks, devices, strict=False))


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """Return the tensors of several devices as one on `destination` (-1 is the CPU, None the current device)."""
    index = torch.cuda.current_device() if destination is None else destination
    return torch.cat([_to(tensor, index) for tensor in tensors], dim)


def broadcast(tensor: Tensor, devices: Sequence[int]) -> tuple[Tensor, ...]:
    """Return a copy of `tensor` on each device; the first is `tensor` itself where it is there."""
    return tuple(_to(tensor, index) for index in devices)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], _buffer_size: int) -> list[list[Tensor]]:
    """Return for each device the copies of all tensors."""
    return [[_to(tensor, index) for tensor in tensors] for index in devices]


def install() -> None:
    """Put the functions where `torch.nn.parallel.comm` looks for them."""
    core: Any = torch._C
    core._scatter, core._gather = scatter, gather
    core._broadcast, core._broadcast_coalesced = broadcast, broadcast_coalesced
    nccl: Any = torch.cuda.nccl
    nccl.is_available = lambda _tensors: False
