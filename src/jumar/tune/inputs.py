"""Random inputs of a task: recorded shapes, strides and dtypes, values of the recorded scale."""

from __future__ import annotations

import math

import torch

from jumar.tune.errors import TuneError
from jumar.tune.task import Task, TensorSpec


def make_inputs(task: Task, seed: int) -> list[torch.Tensor]:
    """Return the task's tensors on the CPU, in order; equal seeds give equal values.

    Raises TuneError for a dtype that random values cannot be made of.
    """
    generator = torch.Generator().manual_seed(seed)
    return [_make(name, spec, generator) for name, spec in task.tensors.items()]


def refill(tensors: list[torch.Tensor], task: Task, seed: int) -> None:
    """Give `tensors` the values of another seed, in place: memory and strides stay."""
    for tensor, fresh in zip(tensors, make_inputs(task, seed), strict=True):
        if 0 in tensor.stride() and tensor.numel():
            _distinct(tensor).copy_(_distinct(fresh))
        else:
            tensor.copy_(fresh)


def in_float64(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors with floating-point ones exactly widened to float64."""
    return [tensor.to(torch.float64) if tensor.is_floating_point() else tensor for tensor in tensors]


def _make(name: str, spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype, None)
    if not isinstance(dtype, torch.dtype) or dtype.is_complex:
        raise TuneError(f"{name} has dtype {spec.dtype}, of which no random input is made.")
    if not all(spec.shape):
        return torch.empty_strided(spec.shape, spec.stride, dtype=dtype)
    size = 1 + sum((length - 1) * step for length, step in zip(spec.shape, spec.stride, strict=True))
    return torch.as_strided(_values(spec, dtype, size, generator), spec.shape, spec.stride)


def _values(spec: TensorSpec, dtype: torch.dtype, size: int, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(size, generator=generator) < (0.5 if spec.mean is None else spec.mean)
    if not dtype.is_floating_point:
        low, high = int(spec.minimum or 0), int(spec.maximum or 0)
        return torch.randint(low, max(high, low) + 1, (size,), generator=generator).to(dtype)
    mean, spread = _scale(spec)
    return (torch.randn(size, generator=generator) * spread + mean).to(dtype)


def _scale(spec: TensorSpec) -> tuple[float, float]:
    """Return mean and standard deviation.

    A constant tensor (a bias of zeros) still gets a spread: a provider that forgets it must be seen.
    """
    if spec.mean is None or spec.rms is None:
        return 0.0, 1.0
    spread = math.sqrt(max(spec.rms**2 - spec.mean**2, 0.0))
    return spec.mean, spread if spread > 1e-6 * spec.rms and spread > 0 else abs(spec.mean) or 1.0


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view in which every element of memory appears once (expanded dimensions cut to 1)."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor
