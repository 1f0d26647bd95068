"""`from torch_npu.contrib import transfer_to_npu`: run a CUDA script on the npu by renaming while it runs.

Like the vendor's module of that name, importing it points `torch.cuda` at `torch.npu`, makes `.cuda()`
move to the npu, and replaces `cuda` and `nccl` in the arguments of the functions that take a device.
Tensors report `npu`, and `is_cuda` is true for them. What it does not reach, as with the vendor's:
comparisons of a device with the text "cuda" in the script itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator.multiple import FACTORIES, METHODS

_installed: list[bool] = []

_PLACES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch, (*FACTORIES, "load", "hann_window", "hamming_window", "kaiser_window", "set_default_device", "Generator")),
    (torch.Tensor, (*METHODS, "to", "type", "pin_memory", "is_pinned")),
    (torch.nn.Module, ("to", "to_empty")),
    (torch.distributed, ("init_process_group", "new_group")),
)


def _renamed(value: Any) -> Any:
    """Return an argument with cuda devices as npu devices."""
    if isinstance(value, str):
        if value == "nccl":
            return "hccl"
        return "npu" + value[4:] if value == "cuda" or value.startswith("cuda:") else value
    if isinstance(value, _real_device) and value.type == "cuda":
        return _real_device("npu") if value.index is None else _real_device("npu", value.index)
    if isinstance(value, dict):
        return {_renamed(key): _renamed(item) for key, item in value.items()}
    return value


def _renaming(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_renamed, args), **{key: _renamed(value) for key, value in kwargs.items()})

    return call


_real_device: Any = torch.device


class _DeviceMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _real_device)


class _Device(metaclass=_DeviceMeta):
    """`torch.device` that makes npu devices where cuda ones are asked for."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _real_device(*map(_renamed, args), **{key: _renamed(value) for key, value in kwargs.items()})


class _Autocast(torch.autocast):
    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(_renamed(device_type), *args, **kwargs)


class _GradScaler(torch.amp.GradScaler):
    def __init__(self, device: str = "npu", *args: Any, **kwargs: Any) -> None:
        super().__init__(_renamed(device), *args, **kwargs)


def _move(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self.npu(*map(_renamed, args), **{key: _renamed(value) for key, value in kwargs.items()})


def install() -> None:
    """Rename for the rest of the process; a second call does nothing."""
    if _installed:
        return
    _installed.append(True)
    pytorch: Any = torch
    for name in dir(pytorch.npu):
        if not name.startswith("__") and name not in ("annotations", "Any"):
            setattr(torch.cuda, name, getattr(pytorch.npu, name))
    for owner, names in _PLACES:
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, _renaming(getattr(owner, name)))
    pytorch.Tensor.cuda = pytorch.nn.Module.cuda = _move
    pytorch.Tensor.is_cuda = property(lambda self: self.device.type == "npu")
    pytorch.device = _Device
    pytorch.autocast = pytorch.amp.autocast = _Autocast
    pytorch.amp.GradScaler = _GradScaler
