"""Several CUDA devices.

The emulator teaches Python its logical devices when a device index above 0 is first used, and puts its own
functions into PyTorch for that. The names of CUDA must be taken off before those see them, so this layer is
laid over them at that moment.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from jumar.device.cuda_stand_in import tensors
from jumar.device.cuda_stand_in.names import redirected
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import multiple


def _outside_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    return call


def _lay_over() -> None:
    module: Any = torch
    tensor: Any = torch.Tensor
    for name in multiple.factories():
        setattr(module, name, redirected(getattr(module, name)))
    for name in (*multiple.factory_methods(), "to"):
        setattr(tensor, name, redirected(getattr(tensor, name)))
    tensor.get_device = _outside_modes(tensor.get_device)
    tensors.answer_device()


def install() -> None:
    """Lay the names of CUDA over the emulator's logical devices, now or when they come up."""
    if STATE.multiple:
        _lay_over()
    else:
        STATE.on_multiple.append(_lay_over)
