"""Checkpoints: tensors are saved as `cuda:N`, so that the file loads wherever a CUDA checkpoint does."""

from __future__ import annotations

from typing import Any

import torch
from torch import serialization

from jumar.device.cuda_stand_in.names import redirected, to_cuda, to_npu

_PRIORITY = 5
"""Before PyTorch's own packages, which begin at 10: those would write `npu:N` and refuse `cuda:N`."""


def _tag(storage: Any) -> str | None:
    device = storage.device
    return to_cuda(f"npu:{device.index or 0}") if device.type == "npu" else None


def _restore(storage: Any, location: str) -> Any:
    if not location.startswith("cuda"):
        return None
    device = torch.device(location)
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is "
            f"{torch.cuda.device_count()}. Please use torch.load with map_location to map your storages to an "
            "existing device."
        )
    return serialization.default_restore_location(storage, to_npu(f"cuda:{index}"))  # type: ignore[no-untyped-call]


def _storage_cuda(self: torch.UntypedStorage, device: Any = None, non_blocking: bool = False) -> Any:
    """Return this storage on a CUDA device: `map_location=lambda storage, location: storage.cuda(0)`."""
    index = torch._utils._get_device_index(device, optional=True)
    return self.to(device=torch.device("npu", index), non_blocking=non_blocking)


def install() -> None:
    """Register the location names with `torch.serialization`, and let storages move to CUDA."""
    serialization.register_package(_PRIORITY, _tag, _restore)
    storage: Any = torch.UntypedStorage
    storage.cuda = _storage_cuda
    storage.to = redirected(storage.to)
