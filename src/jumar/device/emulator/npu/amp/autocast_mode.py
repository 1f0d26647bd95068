"""`torch.npu.amp.autocast` and the decorators of custom autograd functions."""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):
    """`torch.autocast("npu", ...)` in the form of `torch.cuda.amp.autocast`."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


custom_fwd: Any = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd: Any = functools.partial(torch.amp.custom_bwd, device_type="npu")
