"""Arguments of a kernel: the tensors among them, and the same arguments with CPU tensors over the same memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from jumar.npu.core.retag import to_cpu

_LONGEST_SCALARS = 200


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in an argument: itself, those of a tuple, the one in a descriptor or a wrapper of Triton."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(getattr(value, "base", None), torch.Tensor):
        yield value.base


def on_host(value: Any) -> Any:
    """Return the argument with a CPU tensor over the same memory in place of each npu tensor."""
    return _mapped(value, lambda tensor: tensor if tensor.is_cpu else to_cpu(tensor))


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple):
        items = [_mapped(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(getattr(value, "base", None), torch.Tensor):
        return value
    if hasattr(value, "block_shape"):  # a TensorDescriptor
        changed = copy.copy(value)
        object.__setattr__(changed, "base", change(value.base))
        return changed
    return type(value)(change(value.base), value.dtype)  # a TensorWrapper, which `triton.reinterpret` makes


def refuse_host_tensors(args: tuple[Any, ...]) -> None:
    """Raise ValueError, as Triton does, for a tensor of the host among the arguments of a launch on the device."""
    for position, argument in enumerate(args):
        if any(tensor.is_cpu for tensor in tensors_in(argument)):
            raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")


def scalars_of(names: list[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the numbers and constants of a launch as text: `n=1000, BLOCK=256`."""
    given = {**dict(zip(names, args, strict=False)), **{name: kwargs[name] for name in names if name in kwargs}}
    plain = (bool, int, float, str)
    shown = ", ".join(f"{name}={value}" for name, value in given.items() if isinstance(value, plain))
    return shown[:_LONGEST_SCALARS]
