"""Translate device names: `cuda` of the script to `npu` of the emulated accelerator, and back."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_CUDA_NAME = re.compile(r"cuda(?::(\d+))?\Z")
_NPU_NAME = re.compile(r"npu(?::(\d+))?\Z")
_CUDA: dict[int | None, torch.device] = {}
_INSIDE = ("jumar.npu", "torch_npu")
"""Modules that see the emulated device as it is."""


def asked_inside(depth: int) -> bool:
    """Return whether the emulator asks: is the code `depth` frames above the caller part of it."""
    name: str = sys._getframe(depth + 1).f_globals.get("__name__", "")
    return name.startswith(_INSIDE)


def answering_cuda(read: Callable[[Any], torch.device]) -> property:
    """Return a `device` property that answers a script with CUDA, and the emulator with what `read` gives."""

    def device(self: Any) -> torch.device:
        real = read(self)
        if real.type != "npu" or asked_inside(1):
            return real
        return cuda_device(real.index)

    return property(device, doc="The device this is on.")


def to_npu(value: Any) -> Any:
    """Return the emulated device for a CUDA device name or `torch.device`; anything else as it came."""
    if type(value) is str:
        match = _CUDA_NAME.match(value)
        return value if match is None else "npu" + value[len("cuda") :]
    if type(value) is torch.device and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    return value


def to_cuda(value: Any) -> Any:
    """Return the CUDA device for a name or `torch.device` of the emulated one; anything else as it came."""
    if type(value) is str:
        match = _NPU_NAME.match(value)
        return value if match is None else "cuda" + value[len("npu") :]
    if type(value) is torch.device and value.type == "npu":
        return cuda_device(value.index)
    return value


def cuda_device(index: int | None) -> torch.device:
    """Return `torch.device("cuda", index)`, the same object each time: this is asked for all the time."""
    found = _CUDA.get(index)
    if found is None:
        found = torch.device("cuda") if index is None else torch.device("cuda", index)
        _CUDA[index] = found
    return found


def has_cuda_name(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether an argument names a CUDA device. The first look at every call: it must be quick."""
    for value in args:
        kind = type(value)
        if (kind is torch.device and value.type == "cuda") or (kind is str and value.startswith("cuda")):
            return True
    for value in kwargs.values():
        kind = type(value)
        if (kind is torch.device and value.type == "cuda") or (kind is str and value.startswith("cuda")):
            return True
    return False


def redirect(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with CUDA devices replaced, also inside lists of devices."""
    return tuple(_deep(value) for value in args), {name: _deep(value) for name, value in kwargs.items()}


def _deep(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(to_npu(item) for item in value)
    return to_npu(value)


def redirected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` taking CUDA devices for emulated ones, and answering with CUDA devices."""

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = redirect(args, kwargs)
        return to_cuda(function(*args, **kwargs))

    functools.update_wrapper(call, function, updated=())
    return call


def presented_as(made: Any, original: Any) -> Any:
    """Give what stands for a function of PyTorch that function's name, text, signature and `__wrapped__`; return it.

    PyTorch and libraries look at functions as well as calling them: TorchDynamo keeps tables of their `__wrapped__`.
    """
    if not callable(original) or isinstance(original, type):
        return made
    functools.update_wrapper(made, original)
    made.__wrapped__ = getattr(original, "__wrapped__", original)
    return made
