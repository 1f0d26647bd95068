"""What a training's own steps tell, in each of its processes: which model it trains, and when each gradient is ready.

Installed by `JUMAR_RUN_PLUGIN` before the script starts. The outermost module that a training calls is its model,
wrapped in DistributedDataParallel or not. Gradients are not reduced while they are watched, so that no all-reduce takes
the processor from the backward pass. After `STEPS` backward passes `finish` measures what is left, and the process
ends.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils import _pytree

from jumar.tune.job.gradients.messages import STEPS, Told

PLUGIN = "jumar.tune.job.gradients.rank:install"
"""As `JUMAR_RUN_PLUGIN` names it (`jumar.capture.process.plugin`)."""
FOLDER_ENVIRONMENT = "JUMAR_TUNE_GRADIENTS"
"""Folder of the request, where rank 0 writes what it found."""
WARM_STEPS = 2
"""Of the `STEPS`, so many only warm the training up."""
MINOR = 0.5
"""A model with less than this share of the greatest one's bytes is left alone (a discriminator, a teacher)."""

Finish = Callable[["Watched", tuple[Any, ...], dict[str, Any]], None]


class Watched:
    """One model of the training: its parameters, and the times of their gradients in each step."""

    def __init__(self, module: nn.Module, told: Told) -> None:
        self._told = told
        self.module = module
        plain = getattr(module, "_orig_mod", module)  # what torch.compile wraps
        self.ddp = plain if isinstance(plain, nn.parallel.DistributedDataParallel) else None
        self.inner: nn.Module = module if self.ddp is None else self.ddp.module
        self.parameters = {name: one for name, one in self.inner.named_parameters() if one.requires_grad}
        self.steps: list[dict[str, int]] = []
        """Of each backward pass: ns from its begin to when a parameter's gradient was there."""
        self.is_sparse: set[str] = set()
        self._began = 0
        self._open = False
        self._handles = [
            one.register_post_accumulate_grad_hook(functools.partial(self._note, name))
            for name, one in self.parameters.items()
        ]

    @property
    def size_bytes(self) -> int:
        """Bytes of all gradients."""
        return sum(one.numel() * one.element_size() for one in self.parameters.values())

    @property
    def num_steps(self) -> int:
        """Backward passes that have begun."""
        return len(self.steps)

    def begin(self, outputs: Any) -> None:
        """A forward pass is over: the backward pass begins when the gradient of one of its outputs arrives."""
        self._open = False
        for output in _pytree.tree_leaves(outputs):
            if isinstance(output, torch.Tensor) and output.requires_grad:
                output.register_hook(self._begin)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def ready_ns(self) -> dict[str, int]:
        """Return the median over the steps after the first ones, without parameters that got no gradient in one."""
        steps = self.steps[WARM_STEPS:]
        if not steps:
            return {}
        names = [name for name in self.parameters if all(name in step for step in steps)]
        return {name: round(statistics.median(step[name] for step in steps)) for name in names}

    def _begin(self, _gradient: torch.Tensor) -> None:
        if not self._open:
            self._open = True
            self.steps.append({})
            self._told.steps(self.num_steps)
            wait_for(self.inner)
            self._began = time.perf_counter_ns()

    def _note(self, name: str, parameter: torch.Tensor) -> None:
        if parameter.grad is not None and parameter.grad.layout != torch.strided:
            self.is_sparse.add(name)
        if self._open:
            wait_for(self.inner)
            self.steps[-1][name] = time.perf_counter_ns() - self._began


def _needed(one: Watched) -> int:
    """Return after how many backward passes nothing more is to be learnt."""
    if one.ddp is not None and one.ddp.static_graph:
        return 0  # it is refused, and a backward pass that is not reduced would fail in DDP
    return STEPS if has_peers() else 1


def has_peers() -> bool:
    """Tell whether this process reduces gradients with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def wait_for(module: nn.Module) -> None:
    """Wait until the module's device has done its work; a CPU has."""
    device = next((one.device.type for one in module.parameters()), "cpu")
    if device != "cpu":
        torch.get_device_module(device).synchronize()


def install_with(finish: Finish, told: Told) -> Callable[[], None]:
    """Watch every outermost call of a module; call `finish` with the greatest model before its call after `STEPS`.

    Returns what takes the watch away.
    """
    original = nn.Module.__call__
    watched: dict[int, Watched] = {}
    is_over = False

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched | None:
        if not torch.is_grad_enabled() or not any(one.requires_grad for one in module.parameters()):
            return None
        if id(module) not in watched:
            watched[id(module)] = Watched(module, told)
        one = watched[id(module)]
        greatest = max(other.size_bytes for other in watched.values())
        if one.num_steps >= _needed(one) and one.size_bytes >= MINOR * greatest:
            restore()
            finish(one, args, kwargs)
        if one.ddp is not None:
            one.ddp.require_backward_grad_sync = False
        return one

    @functools.wraps(original)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        one = before(self, args, kwargs)
        nn.Module.__call__ = original  # type: ignore[method-assign]  # inner calls, and TorchDynamo, see PyTorch's own
        try:
            outputs = original(self, *args, **kwargs)
        finally:
            if not is_over:
                nn.Module.__call__ = __call__  # type: ignore[method-assign]
        if one is not None and not is_over:
            one.begin(outputs)
        return outputs

    def restore() -> None:
        nonlocal is_over
        is_over = True
        nn.Module.__call__ = original  # type: ignore[method-assign]
        for one in watched.values():
            one.close()

    nn.Module.__call__ = __call__  # type: ignore[method-assign]
    return restore
