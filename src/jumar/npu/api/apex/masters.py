"""An optimizer under amp: float32 master weights, unscaled gradients, skipped steps after an overflow.

The optimizer's own methods are replaced on the instance, as apex does, so that a script goes on calling
`optimizer.step()` and `optimizer.zero_grad()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer

from jumar.npu.api.apex.scaler import LossScaler

Tensor = torch.Tensor


class AmpState:
    """What amp keeps of one optimizer; `optimizer._amp_stash` holds it."""

    def __init__(self, optimizer: Optimizer, *, master_weights: bool, combine_ddp: bool) -> None:
        self.optimizer = optimizer
        self.pairs: list[tuple[Tensor, Tensor]] = []
        """(weight of the model in float16, master weight in float32)."""
        self.scaled = False
        """Whether the gradients still carry the loss scale (`delay_unscale`)."""
        self._master_weights = master_weights
        self._combine_ddp = combine_ddp
        self._skip = False
        self._ready = not master_weights
        self._step, self._zero_grad, self._add = optimizer.step, optimizer.zero_grad, optimizer.add_param_group
        replaced: Any = optimizer
        replaced.step, replaced.zero_grad, replaced.add_param_group = self.step, self.zero_grad, self.add_param_group

    def _begin(self) -> None:
        """Take the masters at the first use, so that a checkpoint loaded after `initialize` is in them."""
        if self._ready:
            return
        self._ready = True
        for group in self.optimizer.param_groups:
            self._take_masters(group)
        if self.pairs:
            self.optimizer.load_state_dict(self.optimizer.state_dict())  # momenta get the masters' dtype

    def _take_masters(self, group: dict[str, Any]) -> None:
        for index, parameter in enumerate(group["params"]):
            if parameter.requires_grad and parameter.dtype is torch.float16:
                master = parameter.detach().clone().float().requires_grad_()
                group["params"][index] = master
                self.pairs.append((parameter, master))
                if parameter in self.optimizer.state:
                    self.optimizer.state[master] = self.optimizer.state.pop(parameter)

    @property
    def _keeps_gradients(self) -> bool:
        """Whether gradients must stay in their memory, because the optimizer has combined them."""
        return bool(getattr(self.optimizer, "is_fused_optimizer", False))

    def _own(self) -> Iterator[Tensor]:
        """Yield the model's weights that the optimizer updates without a master."""
        masters = {id(master) for _, master in self.pairs}
        for group in self.optimizer.param_groups:
            yield from (parameter for parameter in group["params"] if id(parameter) not in masters)

    @torch.no_grad()
    def prepare(self, scale: float) -> None:
        """Make room for a backward pass of a scaled loss; what gradients hold already gets the same scale."""
        self._begin()
        for parameter, _ in self.pairs:
            if not self.scaled:
                parameter.grad = None
        if not self.scaled:
            for gradient in self._gradients(self._own()):
                gradient.mul_(scale)

    @staticmethod
    def _gradients(parameters: Any) -> list[Tensor]:
        return [parameter.grad for parameter in parameters if parameter.grad is not None]

    @torch.no_grad()
    def unscale(self, scaler: LossScaler) -> None:
        """Take the loss scale off the gradients, into the masters' where there are masters."""
        if self._combine_ddp:
            self._average()
        fresh = self._gradients(parameter for parameter, _ in self.pairs)
        own = self._gradients(self._own())
        scaler.look_at([*fresh, *own])
        factor = 1.0 / scaler.loss_scale()
        for gradient in own:
            gradient.mul_(factor)
        for parameter, master in self.pairs:
            if parameter.grad is None:
                continue
            gradient = parameter.grad.float().mul_(factor)
            if master.grad is None:
                master.grad = gradient
            else:
                master.grad.add_(gradient)
        self.scaled = False

    def _average(self) -> None:
        """Average gradients over the ranks, in place of DistributedDataParallel."""
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            every = self._gradients([*(parameter for parameter, _ in self.pairs), *self._own()])
            for gradient in every:
                distributed.all_reduce(gradient)
                gradient.div_(distributed.get_world_size())

    def skip_next_step(self) -> None:
        """Let the next `step` do nothing."""
        self._skip = True

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the weights; after an overflow, only drop the gradients."""
        if closure is not None:
            raise RuntimeError("Currently, Amp does not support closure use with optimizers.")
        self._begin()
        if self._skip:
            self._skip = False
            self._drop_masters_gradients()
            return None
        result = self._step()
        for parameter, master in self.pairs:
            parameter.copy_(master)
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
        self._begin()
        self._zero_grad(*args, **kwargs)
        for parameter, _ in self.pairs:
            parameter.grad = None

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add a group, with master weights of its own."""
        self._add(group)
        if self._ready and self._master_weights:
            self._take_masters(self.optimizer.param_groups[-1])
