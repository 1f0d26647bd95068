"""The errors PyTorch raises when tensors of different devices meet, in the words of torch 2.13 for CUDA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch

from jumar.npu.core.plans import Plan, is_structured
from jumar.npu.memory.memory import index_of

Argument = tuple[str, torch.Tensor]


def device_name(tensor: torch.Tensor) -> str:
    """Return the device as PyTorch prints it, with the logical index of an npu tensor."""
    return str(tensor.device) if tensor.is_cpu else f"npu:{index_of(tensor)}"


def tensors_of(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Argument]:
    """Yield every tensor argument with its name, in schema order."""
    for position, name in enumerate(plan.names):
        value = args[position] if position < len(args) else kwargs.get(name)
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from ((name, item) for item in value if isinstance(item, torch.Tensor))


def method_name(plan: Plan) -> str:
    """Return the name of the wrapper that torchgen writes for an operator (its dest/register_dispatch_key.py)."""
    function = plan.name.removeprefix("aten::")
    base, _, overload = function.partition(".")
    if is_structured(function):
        return f"wrapper_PrivateUse1_{base}" + (f"_{overload}" if overload else "")
    return f"wrapper_PrivateUse1_{overload}_{base}"


class MixedDevicesError(Exception):
    """A composed operator got tensors of several devices; its composition knows what is allowed."""


def misplaced(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NoReturn:
    """Raise the RuntimeError for this call, which mixes devices. At least two tensors must differ.

    PyTorch generates the check only for operators with a kernel for the device. A composed operator raises
    `MixedDevicesError`, and is then run as its composition.
    """
    if plan.composed:
        raise MixedDevicesError
    tensors = list(tensors_of(plan, args, kwargs))
    if plan.name.startswith(("aten::index", "aten::_index", "aten::_unsafe_index")) and plan.cpu_ok:
        _misplaced_index(tensors)
    if plan.zero_dim_ok:
        devices = list(dict.fromkeys(device_name(t) for _, t in tensors if t.dim() or not t.is_cpu))
        # NOTE: TensorIterator takes its common device from the first tensor that is not a CPU scalar and
        # names it first, unless that is the CPU.
        devices.sort(key=lambda name: name == "cpu")
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}!"
        )
    common = device_name(tensors[0][1])
    name, other = next(item for item in tensors if device_name(item[1]) != common)
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but got {name} is on {device_name(other)}, different from "
        f"other tensors on {common} (when checking argument in method {method_name(plan)})"
    )


def _misplaced_index(tensors: list[Argument]) -> None:
    """Raise what advanced indexing raises, when it is an index that is misplaced."""
    own = device_name(tensors[0][1])
    if any(name == "indices" and device_name(t) not in ("cpu", own) for name, t in tensors):
        raise RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({own})")


def check_together(tensors: Sequence[torch.Tensor | None]) -> int:
    """Return the logical device of these npu tensors. Raises RuntimeError when they are not on one device."""
    present = [tensor for tensor in tensors if tensor is not None]
    devices = list(dict.fromkeys(device_name(tensor) for tensor in present))
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}!"
        )
    return index_of(present[0])
