"""`FlatOptimizer`: gives an optimizer of `torch.optim` steps over flat buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks as _POST_HOOKS
from torch.optim.optimizer import _global_optimizer_pre_hooks as _PRE_HOOKS

from jumar.amp.flat.buffers import FlatBuffers
from jumar.amp.flat.checks import reason_against
from jumar.amp.flat.formulas.formula import Formula
from jumar.amp.flat.stepper import Stepper
from jumar.base.errors import InputError


class FlatOptimizer(Optimizer):
    """Steps over flat buffers; a subclass stands before a class of `torch.optim`, whose options and state it keeps.

    The buffers are made at the first `step`, `zero_grad` or `flat_step`. Small parameters (below 32,768 elements) are
    updated together, one kernel for a group, device and dtype; large ones each by itself with the gradient where
    autograd left it, since joining them would cost a copy and gain nothing. Where PyTorch has no fused kernel, an
    update goes through the memory in blocks of the cache's size.

    `zero_grad()` leaves the gradients of small parameters in their place, as zeros that count as no gradient: a
    parameter that gets none until the next step is not updated, as with `torch.optim`. Set them to None yourself
    (`model.zero_grad()`) and they are copied back at the next step.
    """

    def _make_formula(self) -> Formula:
        """Return the formula of this optimizer."""
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, also between steps. Raises InputError for parameters that cannot lie in a flat buffer."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        reason = reason_against(group["params"]) or reason_against_options(group)
        if reason:
            self.param_groups.pop()
            raise InputError(f"{type(self).__name__} cannot keep these parameters in flat buffers: {reason}.")

    def stepper(self) -> Stepper:
        """Return what makes the steps, with the flat buffers."""
        found: Stepper | None = self.__dict__.get("_stepper")
        return self.use_buffers(None) if found is None else found

    def use_buffers(self, buffers: FlatBuffers | None) -> Stepper:
        """Step over these buffers, which may hold other parameters too; None: over new ones."""
        found = self.__dict__["_stepper"] = Stepper(self, self._make_formula(), buffers)
        return found

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; return what `closure` returned (it runs with gradients).

        Raises InputError for sparse gradients.
        """
        # NOTE: PyTorch's wrapper calls hooks and tells profilers; it takes as long as updating 300 small parameters.
        wants = profiler._is_profiler_enabled or _PRE_HOOKS or _POST_HOOKS
        if wants or self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return self._hooked_step(closure)
        with torch.no_grad():
            return self._plain_step(closure)

    def _plain_step(self, closure: Callable[[], Any] | None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._opt_called = True  # learning rate schedulers ask
        self.stepper().step(self)
        return loss

    @Optimizer.profile_hook_step
    @torch.no_grad()
    def _hooked_step(self, closure: Callable[[], Any] | None) -> Any:
        return self._plain_step(closure)

    # NOTE: `torch.optim` wraps a step that is not hooked yet; schedulers wrap one of an instance.
    step.__dict__.update(hooked=True, _wrapped_by_lr_sched=True)

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; see the class for what `set_to_none` does."""
        self.stepper().zero_grad(self, set_to_none)


def reason_against_options(group: dict[str, Any]) -> str | None:
    """Return why a group's options rule flat buffers out, or None."""
    if group.get("differentiable"):
        return "differentiable=True keeps the graph of every update; use torch's own optimizer"
    return None
