"""Deterministic algorithms: for a part of a network and its backward, and as a level."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from jumar.npu.api.npu.config import remember
from jumar.npu.core.state import STATE

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


class _Switch(torch.autograd.Function):
    """Sets the switch when the forward passes, and the other way when the backward passes."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, enabled: bool) -> torch.Tensor:
        ctx.enabled = enabled
        torch.use_deterministic_algorithms(enabled)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.enabled)
        return gradient, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`; from here on algorithms are deterministic, and in the backward up to here."""
    return _Switch.apply(tensor, True)  # type: ignore[no-any-return, no-untyped-call]


def disable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`; ends what `enable_deterministic_with_backward` began, and begins it in the backward."""
    return _Switch.apply(tensor, False)  # type: ignore[no-any-return, no-untyped-call]


def set_deterministic_level(level: int) -> None:
    """Choose how far results repeat: 0 not asked for, 1 and above as `torch.use_deterministic_algorithms`.

    The emulated device computes on the CPU, which gives the same result twice at any level. Warns, as the
    vendor's build does, where this changes PyTorch's own switch. Raises RuntimeError for no level.
    """
    if isinstance(level, bool) or not isinstance(level, int) or level < 0:
        raise RuntimeError(f"the level must be a whole number from 0 up; got {level!r}.")
    wanted = level > 0
    if torch.are_deterministic_algorithms_enabled() != wanted:
        warnings.warn(
            "The current configuration value of 'torch_npu.npu.set_deterministic_level' conflicts with "
            f"'torch.use_deterministic_algorithms', which has been configured to '{wanted}'.",
            stacklevel=2,
        )
        torch.use_deterministic_algorithms(wanted)
    remember({"deterministic_level": level})


def use_compatible_impl(is_enable: bool) -> None:
    """Choose implementations that behave as PyTorch's on CUDA. They do here in any case: kernels are PyTorch's own."""
    remember({"TORCH_NPU_USE_COMPATIBLE_IMPL": "1" if is_enable else "0"})


def are_compatible_impl_enabled() -> bool:
    """Return what `use_compatible_impl` was given, False by default."""
    return bool(STATE.options.get("TORCH_NPU_USE_COMPATIBLE_IMPL") == "1")


def set_op_timeout_ms(timeout: int) -> None:
    """Keep how long one operator may run on an NPU; here none is stopped. Raises RuntimeError below 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 0:
        raise RuntimeError(f"the timeout must be a whole number of milliseconds from 0 up; got {timeout!r}.")
    remember({"op_timeout_ms": timeout})
