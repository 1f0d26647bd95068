"""`NpuFusedOptimizerBase`: the base class of all fused optimizers.

The first `step`, `zero_grad` or `clip_grad_norm_fused_` that finds gradients moves the parameters that
have one, and the gradients, into combined tensors. From then on the memory is what counts, as on the
NPU, with consequences that a script meets there too:

- a gradient must stay in its place: `optimizer.zero_grad()` fills with zeros, and after
  `model.zero_grad()`, which drops the gradients, the optimizer goes on with the old memory;
- a parameter whose first gradient comes later is not updated, or is an error;
- state loaded after the first step is not used.

Where the NPU is silent about these, the emulator does the same and gives one warning.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.optim import Optimizer

from jumar.amp.flat.formulas.formula import Formula
from jumar.amp.flat.run import Piece, Run
from jumar.npu.api.utils.combine_tensors import get_part_combined_tensor, npu_combine_tensors
from jumar.npu.formats import format_of

Tensor = torch.Tensor
Group = dict[str, Any]

__all__ = ["NpuFusedOptimizerBase"]

_DTYPES = (torch.float32, torch.float16)
"""Dtypes that are combined, in the order of the lists that `get_combined_params` returns."""


@dataclass(slots=True)
class Part:
    """The parameters of one group and one dtype that had gradients when they were combined."""

    parameters: list[Tensor]
    parameter: Tensor
    """All of them, flat."""
    gradient: Tensor
    """All their gradients, flat."""
    addresses: list[int]
    """Where each gradient lies, by parameter."""
    state: dict[str, Tensor] = field(default_factory=dict)
    """The optimizer's buffers, flat, by name."""
    kept: dict[str, Tensor] = field(default_factory=dict)
    """What a formula keeps from step to step; not part of the state."""
    num_steps: int = 0
    has_state: bool = False

    def run(self, num_steps: int) -> Run:
        """Return the part as formulas take it, in its `num_steps`-th update."""
        pieces, start = [], 0
        for parameter in self.parameters:
            pieces.append(Piece(start, parameter.numel(), tuple(parameter.shape)))
            start += parameter.numel()
        steps = torch.tensor(float(num_steps))
        return Run(self.parameter, self.gradient, self.state, steps, pieces, kept=self.kept)


class NpuFusedOptimizerBase(Optimizer):
    """Base of the fused optimizers.

    Parameters must be contiguous npu tensors of dtype float32 or float16, checked when they are combined:
    RuntimeError for another device or layout, TypeError for another dtype. A subclass gives a formula of
    `jumar.amp.flat` (`_formula`), or says which buffers it keeps (`_new_state`) and how a part is updated (`_update`).
    """

    _counts_steps: ClassVar[bool] = True
    """Whether `state[parameter]["step"]` counts the steps of each parameter."""
    _late_options: ClassVar[Mapping[str, Any]] = {}
    """Options that came in later versions, with the values that groups of older checkpoints get."""
    _combines_first: ClassVar[bool] = False
    """Whether `step` combines the gradients before its closure runs, which then records gradients."""

    def __init__(self, params: Any, default: dict[str, Any]) -> None:
        super().__init__(params, default)
        self.is_fused_optimizer = True
        self.is_npu_fused_optimizer = True  # the name that older scripts ask for
        self.is_params_grads_combined = False
        self.is_states_combined = False
        self.is_grads_masks_combined = False
        self.params_all_group_combined: list[Tensor | None] = [None] * len(_DTYPES)
        self.grads_all_group_combined: list[Tensor | None] = [None] * len(_DTYPES)
        self.combined_grads_masks: list[Tensor | None] = []
        self._parts: list[list[Part]] = []
        self._warned: set[str] = set()

    # What a subclass gives ------------------------------------------------------------------------------

    def _formula(self) -> Formula:
        """Return the formula of this optimizer."""
        raise NotImplementedError(
            f"{type(self).__name__} must give a formula in _formula, or what a parameter starts with in _new_state and "
            "how parameters are updated in _update"
        )

    def _new_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        """Return the buffers that a parameter with a gradient starts with, each of its shape and dtype."""
        formula = self._formula()
        return {name: torch.full_like(parameter, formula.initial(name)) for name in formula.state_names(group)}

    def _update(self, part: Part, group: Group) -> None:
        """Update the flat parameter of a part from its flat gradient and state, in place."""
        self._formula().update([part.run(part.num_steps)], group)

    # What a script calls --------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters; return what `closure` returned.

        As with the vendor's, the closure runs without recording of gradients: one that calls `backward` has to turn
        it on itself (`torch.enable_grad`). AdamP and Lamb turn it on, and combine gradients before the closure runs,
        so their first call needs some from before. Raises KeyError for a parameter that got its first gradient
        after the others.
        """
        if self._combines_first:
            self._prepare()
        with torch.set_grad_enabled(self._combines_first):
            loss = None if closure is None else closure()
        if not self._combines_first:
            self._prepare()
        self._step_groups()
        return loss

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._late_options.items():
                group.setdefault(name, value)

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = False) -> None:
        """Fill the gradients with zeros. Raises ValueError for `set_to_none=True`: they must keep their memory."""
        if set_to_none:
            raise ValueError("set_to_none is not supported in fused optimizers")
        self._maybe_init_combined_params_and_grads()
        if not self.is_params_grads_combined:
            super().zero_grad(set_to_none=False)
        for combined in self.grads_all_group_combined:
            if combined is not None:
                combined.zero_()

    def get_combined_params(self) -> list[Tensor | None]:
        """Return the combined parameters of all groups, flat: [float32, float16], None where there are none."""
        return self.params_all_group_combined

    def get_combined_grads(self) -> list[Tensor | None]:
        """Return the combined gradients of all groups, flat: [float32, float16], None where there are none."""
        return self.grads_all_group_combined

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> Tensor:
        """Scale all gradients so that their total norm is at most `max_norm`; return the norm before, 0-dim float32.

        Raises ValueError when there is no gradient to combine yet.
        """
        self._maybe_init_combined_params_and_grads()
        if not self.is_grads_masks_combined:
            self._maybe_init_combined_grads_masks()
        pairs = [
            (gradient, mask)
            for gradient, mask in zip(self.grads_all_group_combined, self.combined_grads_masks, strict=True)
            if gradient is not None and mask is not None
        ]
        order = float(norm_type)
        if math.isinf(order):
            total = max(gradient.float().abs().mul_(mask).max() for gradient, mask in pairs)
        else:
            sums = [gradient.float().abs().pow(order).mul_(mask).sum() for gradient, mask in pairs]
            total = torch.stack(sums).sum().pow(1 / order)
        scale = float(max_norm) / (total + 1e-6)
        if scale < 1:
            for gradient, _ in pairs:
                gradient.mul_(scale)
        return total

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load state, which must happen before the first step: later it is not used, and a warning says so."""
        super().load_state_dict(state_dict)
        if self.is_states_combined:
            self._warn(
                "loaded",
                "state loaded after the first step is not used, because the combined state stays in its place; "
                "load it before, or make a new optimizer",
            )

    # Combining ------------------------------------------------------------------------------------------

    def _maybe_init_combined_params_and_grads(self) -> None:
        """Combine parameters and gradients, once there are gradients. `torch.npu.amp.GradScaler` calls it too."""
        if self.is_params_grads_combined:
            return
        chosen = [self._with_gradient(group) for group in self.param_groups]
        for position in range(len(_DTYPES)):
            parameters = [parameter for lists in chosen for parameter in lists[position]]
            self.params_all_group_combined[position] = npu_combine_tensors(parameters)
            self.grads_all_group_combined[position] = npu_combine_tensors([parameter.grad for parameter in parameters])
        starts = [0] * len(_DTYPES)
        self._parts = []
        for lists in chosen:
            self._parts.append([])
            for position, parameters in enumerate(lists):
                size = sum(parameter.numel() for parameter in parameters)
                self._add_part(parameters, position, starts[position], size)
                starts[position] += size
        self.is_params_grads_combined = any(combined is not None for combined in self.params_all_group_combined)

    def _with_gradient(self, group: Group) -> tuple[list[Tensor], list[Tensor]]:
        """Return the float32 and the float16 parameters of a group that have a gradient."""
        chosen: tuple[list[Tensor], list[Tensor]] = ([], [])
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
            if parameter.dtype not in _DTYPES:
                raise TypeError(
                    f"Fused optimizer's parameters must be either float32 or float16, but received {parameter.dtype}"
                )
            if format_of(parameter.grad) is not format_of(parameter):
                parameter.grad = torch.ops.npu.npu_format_cast(parameter.grad, format_of(parameter)).contiguous()
            chosen[_DTYPES.index(parameter.dtype)].append(parameter)
        return chosen

    def _add_part(self, parameters: list[Tensor], position: int, start: int, size: int) -> None:
        parameter = get_part_combined_tensor(self.params_all_group_combined[position], start, size)
        gradient = get_part_combined_tensor(self.grads_all_group_combined[position], start, size)
        if parameter is not None and gradient is not None:
            addresses = [_address(item.grad) for item in parameters]
            self._parts[-1].append(Part(parameters, parameter, gradient, addresses))

    def _maybe_init_combined_states(self) -> None:
        """Combine the state, with buffers that were loaded before, else with new ones."""
        if self.is_states_combined:
            return
        for parts, group in zip(self._parts, self.param_groups, strict=True):
            for part in parts:
                self._combine_state(part, [self._init_state(parameter, group) for parameter in part.parameters])
        self.is_states_combined = True

    def _init_state(self, parameter: Tensor, group: Group) -> dict[str, Tensor]:
        """Give a parameter its buffers, with the values of those that it has already; return them by name."""
        state = self.state[parameter]
        buffers = self._new_state(parameter, group)
        for name, buffer in buffers.items():
            if name in state:
                buffer.copy_(state[name])
        if self._counts_steps:
            state.setdefault("step", 0)
        state.update(buffers)
        return buffers

    def _combine_state(self, part: Part, buffers: list[dict[str, Tensor]]) -> None:
        part.num_steps = int(self.state[part.parameters[0]].get("step", 0))
        for name in buffers[0]:
            combined = npu_combine_tensors([of_parameter[name] for of_parameter in buffers])
            if combined is not None:
                part.state[name] = combined
        part.has_state = True

    def _maybe_init_combined_grads_masks(self) -> None:
        """Make the masks of the gradients' padding; without private formats there is none, and all are ones."""
        if not self.is_params_grads_combined:
            raise ValueError("Value of param 'is_params_grads_combined' must be True")
        self.combined_grads_masks = [
            None if gradient is None else torch.ones_like(gradient, dtype=torch.float32)
            for gradient in self.grads_all_group_combined
        ]
        self.is_grads_masks_combined = True

    # Stepping -------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._maybe_init_combined_params_and_grads()
        self._maybe_init_combined_states()

    def _step_groups(self) -> None:
        self._check_groups()
        self._check_gradients()
        for parts, group in zip(self._parts, self.param_groups, strict=True):
            if self._counts_steps:
                self._count_step(group)
            for part in parts:
                part.num_steps += 1
                self._update(part, group)

    def _count_step(self, group: Group) -> None:
        for parameter in group["params"]:
            if parameter.grad is not None:
                self.state[parameter]["step"] += 1

    def _check_groups(self) -> None:
        """Raise for what came too late to be combined and is an error on the NPU."""
        num_added = len(self.param_groups) - len(self._parts)
        if num_added:
            raise IndexError(
                f"{type(self).__name__} combined its {len(self._parts)} parameter groups before the first step and has "
                f"no place for {num_added} added since; add groups before the first step."
            )
        for parts, group in zip(self._parts, self.param_groups, strict=True):
            for part in parts:
                if not part.has_state and (self._counts_steps or self._new_state(part.parameters[0], group)):
                    raise KeyError(
                        f"'step': {type(self).__name__} made its state at a step() before there were gradients, so it "
                        "is empty; call backward before the first step()."
                    )

    def _check_gradients(self) -> None:
        """Look for gradients that are not where the combined tensors expect them."""
        every = [part for parts in self._parts for part in parts]
        combined = {parameter for part in every for parameter in part.parameters}
        listed = [parameter for group in self.param_groups for parameter in group["params"]]
        num_late = sum(parameter.grad is not None and parameter not in combined for parameter in listed)
        if num_late:
            self._late(num_late)
        num_moved = sum(
            _address(parameter.grad) != address
            for part in every
            for parameter, address in zip(part.parameters, part.addresses, strict=True)
        )
        if num_moved:
            self._warn(
                "moved",
                f"the gradients of {num_moved} parameters were dropped or replaced since they were combined, and their "
                "new values are not used; clear gradients with optimizer.zero_grad() instead of model.zero_grad() or "
                "grad = None",
            )

    def _late(self, num_late: int) -> None:
        """Do what the NPU does about parameters that got their first gradient after the others."""
        reason = (
            f"{num_late} parameters got their first gradient after the others were combined; let every parameter "
            "have a gradient at the first step, or leave it out of the optimizer"
        )
        if self._counts_steps:
            raise KeyError(f"'step': {reason}.")
        self._warn("late", f"{reason}: they are not updated")

    def _warn(self, kind: str, text: str) -> None:
        """Warn once of each kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"{type(self).__name__}, as on the NPU: {text}.", UserWarning, stacklevel=2)


def _address(gradient: Tensor | None) -> int:
    return 0 if gradient is None else gradient.data_ptr()
