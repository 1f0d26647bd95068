"""What `torch.nn.DataParallel` and `torch.nn.parallel.comm` call: copies among several devices of one process.

A PyTorch without CUDA has no such functions; torch_npu brings its own, and these are the emulator's. Device numbers are
logical npu devices, and -1 is the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.core.overloads import tensors_in
from jumar.npu.core.versions.registration import takes_python_backends

Tensor = torch.Tensor
Streams = Sequence[Any] | None


def _place(device: int | None) -> torch.device:
    if device == -1:
        return torch.device("cpu")
    return torch.device("npu", torch.npu.current_device() if device is None else device)  # type: ignore[attr-defined]


def _put(tensor: Tensor, device: int) -> Tensor:
    """Return the tensor on this device: itself where it is there already."""
    if device < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {device}")
    return tensor if tensor.get_device() == device else tensor.to(_place(device), non_blocking=True)


def _all_on_npu(tensors: Sequence[Tensor], role: str) -> None:
    if not tensors:
        raise RuntimeError(f"Expected at least one {role} tensor")
    for position, tensor in enumerate(tensors):
        if tensor.device.type != "npu":
            raise RuntimeError(
                f"Expected all {role} tensors to be NPU tensors, but {role} tensor at index {position} has device "
                f"'{tensor.device}'"
            )


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """Return the tensor on each of the devices."""
    return [_put(tensor, device) for device in devices]


def broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> list[Tensor]:
    """Copy the tensor into each of `out`, which are npu tensors of its shape."""
    _all_on_npu(out, "output")
    for target in out:
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but got "
                f"{list(target.shape)}"
            )
        target.copy_(tensor, non_blocking=True)
    return list(out)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], _buffer_size: int) -> list[list[Tensor]]:
    """Return all tensors, which are on the first of the devices, on each device: those themselves come first."""
    if any(tensor.get_device() != devices[0] for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    return [list(tensors), *([_put(tensor.detach(), device) for tensor in tensors] for device in devices[1:])]


def scatter(tensor: Tensor, devices: Sequence[int], chunk_sizes: Any, dim: int, _streams: Streams) -> list[Tensor]:
    """Return the tensor cut along `dim`, a part on each device; without sizes in equal parts, maybe fewer."""
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    elif len(chunk_sizes) == len(devices):
        chunks = tensor.split_with_sizes(list(chunk_sizes), dim)
    else:
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    return [_put(chunk, device) for chunk, device in zip(chunks, devices, strict=False)]


def scatter_out(tensor: Tensor, out: Sequence[Tensor], dim: int, _streams: Streams) -> list[Tensor]:
    """Copy parts of the tensor along `dim` into `out`, whose sizes there add up to the tensor's."""
    _all_on_npu(out, "output")
    sizes = [target.size(dim) for target in out]
    if sum(sizes) != tensor.size(dim):
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim "
            f"{dim}. Expected {tensor.size(dim)}, but got total size {sum(sizes)}"
        )
    for target, chunk in zip(out, tensor.split_with_sizes(sizes, dim), strict=True):
        target.copy_(chunk, non_blocking=True)
    return list(out)


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    """Return the tensors joined along `dim` on the device `destination`: the current one for None, -1 for the CPU."""
    _all_on_npu(tensors, "input")
    return torch.cat([tensor.to(_place(destination)) for tensor in tensors], dim)


def gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    """Write the tensors, joined along `dim`, into `out`, which has their common shape."""
    _all_on_npu(tensors, "input")
    return out.copy_(torch.cat([tensor.to(out.device) for tensor in tensors], dim))


def parallel_apply(
    modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Sequence[Any] | None = None, devices: Any = None
) -> list[Any]:
    """Call each module with its inputs on its device, one after the other: before torch 2.10 PyTorch's asks CUDA."""
    found = []
    for position, (module, given) in enumerate(zip(modules, inputs, strict=True)):
        args = given if isinstance(given, (list, tuple)) else (given,)
        device = devices[position] if devices else next((tensor.device for tensor in tensors_in((args,))), None)
        if device is None:
            raise RuntimeError(f"replica {position} was given no device and no tensor; give it one of both.")
        with torch.npu.device(device):  # type: ignore[attr-defined]
            found.append(module(*args, **(kwargs_tup[position] if kwargs_tup else {})))
    return found


def install() -> None:
    """Give PyTorch the functions that a build without CUDA lacks; a build with CUDA has them for GPUs alone."""
    module: Any = torch._C
    has_gpus = torch.cuda.is_available()
    for function in (broadcast, broadcast_out, broadcast_coalesced, scatter, scatter_out, gather, gather_out):
        if not (has_gpus and hasattr(module, f"_{function.__name__}")):
            setattr(module, f"_{function.__name__}", function)
    if not takes_python_backends():
        for name in ("torch.nn.parallel.data_parallel", "torch.nn.parallel.parallel_apply", "torch.nn.parallel"):
            vars(sys.modules[name])["parallel_apply"] = parallel_apply
