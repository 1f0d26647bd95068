"""Convolutions that reach the device by way of `convolution_overrideable`.

The device runs `aten::convolution` itself. It is composed all the same when tensors of several devices
meet, and ends here; on CUDA the same call ends in this error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch


def _overrideable(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *_: Any) -> NoReturn:
    """`convolution_overrideable`: raise the RuntimeError of a convolution that mixes devices."""
    name, other = ("weight", weight) if weight.type() != input.type() or bias is None else ("bias", bias)
    raise RuntimeError(f"Input type ({input.type()}) and {name} type ({other.type()}) should be the same")


KERNELS: dict[str, Callable[..., Any]] = {"aten::convolution_overrideable": _overrideable}
