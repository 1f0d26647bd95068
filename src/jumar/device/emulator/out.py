"""`out=`: results written into tensors that exist, which are resized when they have another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator import detour
from jumar.device.emulator.arguments import unwrap, written
from jumar.device.emulator.memory import index_of
from jumar.device.emulator.plans import CPU_KEYS, Plan
from jumar.device.emulator.retag import to_cpu
from jumar.device.emulator.state import STATE
from jumar.device.emulator.storage import repoint, reshape

Tensor = torch.Tensor


def out(plan: Plan) -> Callable[..., Any]:
    """Kernel of an operator that writes its keyword arguments."""

    def general(args: Any, kwargs: Any, _index: int = 0) -> Any:
        call(plan, args, kwargs)
        return written(plan, args, kwargs)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return detour.run(plan, args, kwargs) if STATE.detour else general(args, kwargs)

    plan.general = general
    return kernel


def call(plan: Plan, args: Any, kwargs: dict[str, Any]) -> None:
    """Run the operator and bring what it resized back to the npu tensors."""
    cpu, keywords = unwrap(plan, args, kwargs)
    targets = [(name, kwargs[name]) for name in plan.keywords & kwargs.keys() if isinstance(kwargs[name], Tensor)]
    for name, target in targets:
        if not target.numel():
            keywords[name] = _replacement(target)
    try:
        plan.call(CPU_KEYS, *cpu, **keywords)
    except RuntimeError as error:
        if "not resizable" not in str(error):
            raise
        # NOTE: memory behind an npu tensor cannot grow in place. The kernel has raised while it prepared
        # its outputs, before any work, so it can be called again with outputs of its own.
        keywords.update({name: _replacement(target) for name, target in targets})
        plan.call(CPU_KEYS, *cpu, **keywords)
        # NOTE: an output that had the right shape keeps its memory, as it would on any device.
    for name, target in targets:
        _bring_back(keywords[name], target)


def _replacement(target: Tensor) -> Tensor:
    """Return an empty CPU tensor that can grow, in place of an output."""
    return torch.empty(0, dtype=target.dtype, device="cpu")


def _bring_back(result: Tensor, target: Tensor) -> None:
    """Give the npu tensor `target` the value and shape of the CPU tensor `result`, where they differ."""
    same_memory = result.data_ptr() == target.data_ptr()
    if result.shape == target.shape and not (result.numel() == 0 and result.stride() != target.stride()):
        if not same_memory:
            to_cpu(target).copy_(result)
        elif result.stride() != target.stride():
            reshape(target, result.shape, result.stride())
    elif same_memory and result.numel():
        reshape(target, result.shape, result.stride())
    else:
        repoint(target, result, index_of(target))
