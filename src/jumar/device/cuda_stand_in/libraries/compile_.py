"""`torch.compile` returns its function unchanged: the reference runs eagerly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from jumar.device.cuda_stand_in.names import presented_as
from jumar.device.cuda_stand_in.refused import Refused

_log = logging.getLogger("jumar.device")


def _compile(model: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return `model` itself, or a decorator that does."""
    if model is None:
        return lambda function: _compile(function, **options)
    _log.warning("torch.compile does nothing on the CUDA stand-in: the reference runs eagerly.")
    return model


def _compile_in_place(self: torch.nn.Module, *_args: Any, **_options: Any) -> None:
    _compile(self)


_OF_CUDA_GRAPHS = ("_cuda_CUDAAllocator_AllocatorState", "_set_cached_tensors_enabled")
"""Names of a CUDA build that `torch._inductor.cudagraph_trees` imports; `torch._dynamo.reset` imports that module."""


def install() -> None:
    """Replace `torch.compile` and `Module.compile`, and let the modules behind them be imported."""
    module: Any = torch
    for name in _OF_CUDA_GRAPHS:
        if not hasattr(module._C, name):
            setattr(module._C, name, Refused(f"torch._C.{name}", "run the captured code directly"))
    module.compile = presented_as(_compile, module.compile)
    module.nn.Module.compile = presented_as(_compile_in_place, module.nn.Module.compile)
