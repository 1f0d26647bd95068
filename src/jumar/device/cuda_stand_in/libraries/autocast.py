"""`torch.autocast("cuda")` and its queries, on the emulated accelerator.

The casts themselves are made by PyTorch's autocast key of the emulated device, which carries the lists
that PyTorch has for CUDA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import autocast_mode

from jumar.device.cuda_stand_in.names import presented_as, redirected, to_npu

_QUERIES = ("get_autocast_dtype", "set_autocast_dtype", "set_autocast_enabled")


def _initialise(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def initialise(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, to_npu(device_type), *args, **kwargs)

    return initialise


def _is_enabled(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def is_autocast_enabled(device_type: str = "cuda") -> bool:
        """Return whether autocast is on; without a name PyTorch asks about CUDA."""
        return original(to_npu(device_type))

    return is_autocast_enabled


def install() -> None:
    """Redirect autocast for CUDA."""
    autocast: Any = autocast_mode.autocast
    autocast.__init__ = _initialise(autocast.__init__)
    module: Any = torch
    module.is_autocast_enabled = _is_enabled(torch.is_autocast_enabled)
    for name in _QUERIES:
        setattr(module, name, redirected(getattr(torch, name)))
    old: dict[str, Callable[..., Any]] = {
        "get_autocast_gpu_dtype": lambda: torch.get_autocast_dtype("cuda"),
        "set_autocast_gpu_dtype": lambda dtype: torch.set_autocast_dtype("cuda", dtype),
    }
    for name, function in old.items():
        setattr(module, name, presented_as(function, getattr(module, name)))
    available = redirected(autocast_mode.is_autocast_available)
    autocast_mode.is_autocast_available = available
    module.amp.is_autocast_available = available
