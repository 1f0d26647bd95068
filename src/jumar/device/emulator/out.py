"""`out=`: results written into tensors that exist, which are resized when they have another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator import detour
from jumar.device.emulator.dispatch import unwrap, written
from jumar.device.emulator.memory import index_of
from jumar.device.emulator.plans import CPU_KEYS, Plan
from jumar.device.emulator.state import STATE
from jumar.device.emulator.storage import repoint

Tensor = torch.Tensor


def out(plan: Plan) -> Callable[..., Any]:
    """Kernel of an operator that writes its keyword arguments."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if STATE.detour:
            return detour.run(plan, args, kwargs)
        call(plan, args, kwargs)
        return written(plan, args, kwargs)

    return kernel


def call(plan: Plan, args: Any, kwargs: dict[str, Any]) -> None:
    """Run the operator and bring what it resized back to the npu tensors."""
    cpu, keywords = unwrap(plan, args, kwargs)
    targets = [
        (name, kwargs[name]) for name in plan.keywords & kwargs.keys() if isinstance(kwargs[name], Tensor)
    ]
    for name, target in targets:
        if not target.numel():
            keywords[name] = _replacement(keywords[name])
    given = dict(keywords)
    try:
        plan.call(CPU_KEYS, *cpu, **keywords)
    except RuntimeError as error:
        if "not resizable" not in str(error):
            raise
        # NOTE: memory behind an npu tensor cannot grow in place. The kernel has raised while it prepared
        # its output, before any work, so it can be called again with an output of its own.
        for name, target in targets:
            given[name] = _replacement(given[name]) if given[name].shape != target.shape else given[name]
            given[name] = _replacement(given[name])
        plan.call(CPU_KEYS, *cpu, **given)
    for name, target in targets:
        _bring_back(given[name], target)


def _replacement(target: Tensor) -> Tensor:
    return torch.empty(0, dtype=target.dtype) if target.dim() == 1 else torch.empty_like(target).resize_(0)


def _bring_back(result: Tensor, target: Tensor) -> None:
    """Give the npu tensor `target` the memory and shape of the CPU tensor `result`, where they differ."""
    if result.data_ptr() == target.data_ptr() and result.shape == target.shape and result.stride() == target.stride():
        return
    repoint(target, result, index_of(target))
