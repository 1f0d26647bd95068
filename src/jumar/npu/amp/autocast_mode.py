"""`torch.npu.amp.autocast` and the decorators of custom autograd functions."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):
    """`torch.autocast("npu", ...)` in the form of `torch.cuda.amp.autocast`."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """Decorate the `forward` of an autograd function, as `torch.amp.custom_fwd` does; tensors become `cast_inputs`."""
    return torch.amp.custom_fwd(fwd, device_type="npu", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """Decorate the `backward` of an autograd function: it runs under the autocast state of its forward."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
