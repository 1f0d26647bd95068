"""An optimizer under amp: float32 master weights, unscaled gradients, skipped steps after an overflow.

The optimizer's own methods are replaced on the instance, as Apex does, so that a script goes on calling
`optimizer.step()` and `optimizer.zero_grad()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from jumar.amp.cast import weights
from jumar.amp.cast.levels import HALF_TYPES
from jumar.amp.hooks import ScaledStep, tell
from jumar.amp.scale.origins import not_finite
from jumar.amp.scale.scaler import LossScaler
from jumar.amp.step.averaging import Averager, ranks
from jumar.amp.step.combined import Gradients
from jumar.amp.step.methods import STASH, OwnMethods

Tensor = torch.Tensor


class AmpState:
    """What amp keeps of one optimizer; `optimizer._amp_stash` holds it."""

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        master_weights: bool,
        averager: Averager | None = None,
        combine: bool = False,
        check_combined: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.pairs: list[tuple[Tensor, Tensor]] = []
        """(16-bit weight of the model, its float32 master)."""
        self.averager = averager
        self.origins: tuple[str, ...] = ()
        """Parameters without a finite gradient in the last overflow."""
        self.num_gradients = 0
        self._scaled: float | None = None
        """The scale that the gradients still carry (`delay_unscale`)."""
        self._stashed: list[tuple[Tensor, Tensor]] = []
        self._used_scale: float | None = None
        self._master_weights = master_weights
        self._combine, self._check_combined = combine, check_combined
        self._fresh = Gradients(combine=combine)
        self._read = Gradients(combine=combine and not self._keeps_gradients)  # those combine them by themselves
        self._skip = False
        self._ready = not master_weights and not combine
        self._own_methods = OwnMethods(optimizer)
        setattr(optimizer, STASH, self)

    # Masters ----------------------------------------------------------------------------------------------

    @property
    def works_on_gradients(self) -> bool:
        """Whether gradients are more than what backward leaves, whatever the scale is."""
        return self._master_weights or self._combine or self.averager is not None

    def begin(self) -> None:
        """Take the masters at the first use, so that a checkpoint loaded after `initialize` is in them."""
        if self._ready:
            return
        self._ready = True
        for group in self.optimizer.param_groups if self._master_weights else ():
            self._take_masters(group)
        if self.pairs:
            state = self.optimizer.state_dict()
            self._own_methods["load_state_dict"](state)  # momenta get the masters' dtype
        if self._combine:
            self._flatten()

    def _flatten(self) -> None:
        """Combine what the optimizer reads, and let it step over the same buffers where it has a flat form."""
        self._cover()
        if self._read.buffers is not None:
            self._own_methods.flatten(self._read.buffers)

    def _take_masters(self, group: dict[str, Any]) -> None:
        for index, parameter in enumerate(group["params"]):
            if parameter.requires_grad and parameter.dtype in HALF_TYPES:
                master = weights.new_master(parameter)
                group["params"][index] = master
                self.pairs.append((parameter, master))
                if parameter in self.optimizer.state:
                    self.optimizer.state[master] = self.optimizer.state.pop(parameter)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add a group, with master weights of its own."""
        self._own_methods["add_param_group"](group)
        if self._ready and self._master_weights:
            self._take_masters(self.optimizer.param_groups[-1])

    @property
    def _keeps_gradients(self) -> bool:
        """Whether gradients must stay in their memory, because the optimizer has combined them."""
        return bool(getattr(self.optimizer, "is_fused_optimizer", False))

    def _own(self) -> list[Tensor]:
        """Return the model's weights that the optimizer updates without a master."""
        masters = {id(master) for _, master in self.pairs}
        listed = (parameter for group in self.optimizer.param_groups for parameter in group["params"])
        return [parameter for parameter in listed if id(parameter) not in masters]

    def _cover(self) -> None:
        """Follow parameters that were added."""
        self._fresh.cover([parameter for parameter, _ in self.pairs])
        self._read.cover([*(master for _, master in self.pairs), *self._own()])

    def combined_gradients(self) -> list[Tensor]:
        """Return the gradients that the optimizer reads; flat where they are combined."""
        self.begin()
        self._cover()
        return self._read.all()

    def _own_gradients(self) -> list[Tensor]:
        """Return the gradients of weights without a master; flat where they are combined and there are no others."""
        if not self.pairs:
            return self._read.all()
        return [parameter.grad for parameter in self._own() if parameter.grad is not None]

    # Around a backward pass -------------------------------------------------------------------------------

    @torch.no_grad()
    def prepare(self, scale: float) -> None:
        """Make room for a backward pass of a loss times `scale`; what gradients hold already gets the same scale."""
        self.begin()
        self._cover()
        self._used_scale = max(scale, self._used_scale or 0.0)
        held = 1.0 if self._scaled is None else self._scaled
        factor = scale / held
        if self._scaled is None:
            self._fresh.clear()
        elif factor != 1.0:
            for gradient in self._fresh.all():
                gradient.mul_(factor)
        if factor == 1.0:
            return
        for gradient in self._own_gradients():
            if gradient.dtype not in HALF_TYPES or self._scaled is not None:
                gradient.mul_(factor)
        if self._scaled is None:
            self._stash()

    def _stash(self) -> None:
        """Put 16-bit gradients aside: at the loss's scale they may overflow."""
        for parameter in self._own():
            if parameter.grad is not None and parameter.grad.dtype in HALF_TYPES:
                self._stashed.append((parameter, parameter.grad.clone() if self._combine else parameter.grad))
                parameter.grad = None

    def keep_scaled(self, scale: float) -> None:
        """Leave the gradients as they are until a later backward pass."""
        self._scaled = scale

    @torch.no_grad()
    def unscale(self, scaler: LossScaler) -> None:
        """Average over the ranks where told to, look for NaN and Inf, and take the loss scale off the gradients."""
        self._find_overflow(scaler)
        factor = 1.0 / scaler.loss_scale()
        if factor != 1.0:
            for gradient in self._own_gradients():
                gradient.mul_(factor)
        self._fresh.settle()
        for parameter, master in self.pairs:
            if parameter.grad is None:
                continue
            gradient = parameter.grad.float().mul_(factor)
            if master.grad is None:
                master.grad = gradient
            else:
                master.grad.add_(gradient)
        self._read.all()
        self._read.settle()
        for parameter, gradient in self._stashed:
            if parameter.grad is None:
                parameter.grad = gradient
            else:
                parameter.grad.add_(gradient)
        self._stashed.clear()
        self._scaled = None

    def _find_overflow(self, scaler: LossScaler) -> None:
        own = self._own()
        every = [*self._fresh.parameters, *own]
        if self.averager is None or ranks() == 1:
            self._note(every, scaler.look_at([*self._fresh.all(), *self._own_gradients()]))
            return
        self._fresh.all()
        self._fresh.settle()
        if not self.pairs:
            self._read.all()
            self._read.settle()
        averages, flag = self.averager.average(every, flag=scaler.checks and scaler.flag_is_up())
        self._note(every, scaler.look_at(averages, elsewhere=flag))
        self.averager.take(every, averages)

    def _note(self, parameters: list[Tensor], overflowed: bool) -> None:
        self.num_gradients = sum(parameter.grad is not None for parameter in parameters)
        self.origins = not_finite(parameters) if overflowed else ()

    def skip_next_step(self) -> None:
        """Let the next `step` do nothing."""
        self._skip = True

    # What a script calls ----------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the weights; after an overflow, only drop the gradients. Raises RuntimeError for a closure."""
        if closure is not None:
            raise RuntimeError("Currently, Amp does not support closure use with optimizers.")
        self.begin()
        skip, self._skip = self._skip, False
        if self._check_combined:
            self._read.check()
        if self._used_scale is not None:
            origin = self.origins[0] if skip and self.origins else ""
            tell(ScaledStep(optimizer=self.optimizer, loss_scale=self._used_scale, skipped=skip, origin=origin))
        self._used_scale, result = None, None
        if not skip:
            result = self._own_methods["step"]()
            for parameter, master in self.pairs:
                parameter.copy_(master)
            torch.clear_autocast_cache()
        self.optimizer._opt_called = True  # type: ignore[attr-defined]  # learning rate schedulers ask
        self._drop_masters_gradients()
        return result

    def _drop_masters_gradients(self) -> None:
        """Clear what `model.zero_grad()` does not reach."""
        for _, master in self.pairs:
            if self._keeps_gradients and master.grad is not None:
                master.grad.zero_()
            else:
                master.grad = None

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clear the gradients of the model and of the masters."""
        self.begin()
        self._own_methods["zero_grad"](*args, **kwargs)
        self._cover()
        self._fresh.clear()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the optimizer's state into the masters', so that float32 momenta stay float32."""
        self.begin()
        self._own_methods["load_state_dict"](state)
