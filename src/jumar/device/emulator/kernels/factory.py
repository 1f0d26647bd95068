"""Operators that make tensors of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator import arguments, devices
from jumar.device.emulator.state import STATE


def _zeros(size: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> torch.Tensor:
    """`_efficientzerotensor`: zeros with memory. PyTorch's saves the memory with a tensor that has none,
    which only kernels that know of it can read."""
    index = devices.index_of_argument(device, None) if STATE.multiple else 0
    return arguments.wrap(torch.zeros(list(size), dtype=dtype, device="cpu"), index or 0)  # type: ignore[no-any-return]


KERNELS: dict[str, Callable[..., Any]] = {"aten::_efficientzerotensor": _zeros}
