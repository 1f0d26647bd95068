"""`torch.compile` returns its function unchanged: the reference runs eagerly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

_log = logging.getLogger("jumar.device")


def _compile(model: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return `model` itself, or a decorator that does."""
    if model is None:
        return lambda function: _compile(function, **options)
    _log.warning("torch.compile does nothing on the CUDA stand-in: the reference runs eagerly.")
    return model


def _compile_in_place(self: torch.nn.Module, *_args: Any, **_options: Any) -> None:
    _compile(self)


def install() -> None:
    """Replace `torch.compile` and `Module.compile`."""
    module: Any = torch
    module.compile = _compile
    module.nn.Module.compile = _compile_in_place
