"""Arguments that name a CUDA device or NCCL, renamed for the npu: what `transfer_to_npu` wraps functions with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_DEVICES = ("device", "device_type", "map_location", "device_id")
"""Keywords that hold a device."""


def renamed(value: Any) -> Any:
    """Return a device, or a mapping of devices, with npu devices for cuda ones; anything else as it is."""
    if isinstance(value, str):
        return "npu" + value[4:] if value == "cuda" or value.startswith("cuda:") else value
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if isinstance(value, dict):
        return {renamed(key): renamed(item) for key, item in value.items()}
    return value


def renaming(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with cuda devices renamed: positional ones, in the keywords of devices, in `device_ids`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in _DEVICES:
            if name in kwargs:
                kwargs[name] = renamed(kwargs[name])
        listed = kwargs.get("device_ids")
        if isinstance(listed, (list, tuple)):
            kwargs["device_ids"] = type(listed)(map(renamed, listed))
        return function(*map(renamed, args), **kwargs)

    return call


def _renamed_backend(value: Any) -> Any:
    """Return the name of a backend, `nccl` or `cpu:gloo,cuda:nccl`, with those of the npu."""
    return value.replace("nccl", "hccl").replace("cuda", "npu") if isinstance(value, str) else value


def renaming_backend(function: Callable[..., Any], position: int = 0) -> Callable[..., Any]:
    """Return the function with the backend renamed that it takes at this position or as `backend`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > position:
            given[position] = _renamed_backend(given[position])
        if "backend" in kwargs:
            kwargs["backend"] = _renamed_backend(kwargs["backend"])
        return function(*given, **kwargs)

    return renaming(call)


class _Proxy(type):
    """The class of a class that stands before PyTorch's own, whose objects stay instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.__mro__[1])


def proxy(real: Any) -> Any:
    """Return a class to put in the place of `torch.Generator` or `torch.Event`, which takes cuda devices."""

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return real.__new__(cls, *map(renamed, args), **{name: renamed(value) for name, value in kwargs.items()})

    meta: Any = type("_Proxy", (_Proxy, type(real)), {})
    return meta(real.__name__, (real,), {"__new__": new, "__doc__": real.__doc__, "__module__": real.__module__})
