"""Take CUDA devices wherever PyTorch takes a device.

`device="cuda"` is replaced in a `TorchFunctionMode`, which PyTorch consults on every function and method
that takes or gives tensors, in Python and in C++. Modes belong to a thread, so the mode is carried into
every thread that is started, and into the backward pass, where hooks and custom functions run.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from jumar.device.cuda_stand_in.names import asked_inside, has_cuda_name, redirect, redirected, to_cuda, to_npu


class Redirect(TorchFunctionMode):
    """Replaces CUDA devices in the arguments of every call of PyTorch."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            made = func(*args, **kwargs)
            # a bare index means the accelerator, and its name for the script is cuda
            return to_cuda(made) if args and type(args[0]) is int and not asked_inside(1) else made
        # `cuda` could be the equation of an einsum
        if has_cuda_name(args, kwargs) and func is not torch.functional.einsum:
            args, kwargs = redirect(args, kwargs)
        return func(*args, **kwargs)


def _in_mode(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` running under a mode of its own, whatever the calling thread has."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with Redirect():
            return function(*args, **kwargs)

    return call


def _carry_into_threads() -> None:
    start = threading.Thread.start

    @functools.wraps(start)
    def start_in_mode(self: threading.Thread) -> None:
        self.run = _in_mode(self.run)  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_in_mode  # type: ignore[method-assign]


def _carry_into_backward() -> None:
    # NOTE: a call that goes through a mode runs without it, so `loss.backward()` would reach the script's
    # hooks and autograd functions unredirected.
    autograd: Any = torch.autograd
    autograd._engine_run_backward = _in_mode(autograd._engine_run_backward)


def _default_device() -> None:
    """`torch.device("cuda")` as a context and `set_default_device`: these act below every other mode."""
    from torch.utils import _device

    original = _device.DeviceContext.__init__

    @functools.wraps(original)
    def initialise(self: Any, device: Any) -> None:
        original(self, to_npu(device))

    _device.DeviceContext.__init__ = initialise  # type: ignore[method-assign]
    torch.get_default_device = redirected(torch.get_default_device)


def install() -> None:
    """Enter the mode for good in this thread, and carry it where it would not go by itself."""
    Redirect().__enter__()  # type: ignore[no-untyped-call]
    _carry_into_threads()
    _carry_into_backward()
    _default_device()
