"""Operators that make tensors of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator import arguments


def _zeros(size: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> torch.Tensor:
    """`_efficientzerotensor`: zeros with memory. PyTorch's saves the memory with a tensor that has none,
    which only kernels that know of it can read."""
    return arguments.wrap(torch.zeros(list(size), dtype=dtype, device="cpu"))  # type: ignore[no-any-return]


KERNELS: dict[str, Callable[..., Any]] = {"aten::_efficientzerotensor": _zeros}
