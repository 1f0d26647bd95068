"""`combine`: gives an existing optimizer flat steps. `flat_step`: unscale, check, clip and update in one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.optim import Optimizer

from jumar.amp.flat.buffers import FlatBuffers
from jumar.amp.flat.checks import reason_against
from jumar.amp.flat.mixin import FlatOptimizer, reason_against_options
from jumar.amp.flat.optimizers import of_torch
from jumar.amp.flat.stepper import FlatOutcome
from jumar.base.errors import InputError

COUNTERPARTS: dict[type[Optimizer], type[FlatOptimizer]] = {
    torch.optim.SGD: of_torch.SGD,
    torch.optim.Adam: of_torch.Adam,
    torch.optim.AdamW: of_torch.AdamW,
    torch.optim.Adadelta: of_torch.Adadelta,
    torch.optim.RMSprop: of_torch.RMSprop,
}
"""Classes of `torch.optim` and those that compute the same over flat buffers."""


class Combined(NamedTuple):
    """What `combine` did: the optimizer itself, or None and why not, a sentence without its full stop."""

    optimizer: FlatOptimizer | None
    reason: str = ""


def combine(optimizer: Optimizer, buffers: FlatBuffers | None = None) -> Combined:
    """Let an existing optimizer step over flat buffers from now on, in place: its class becomes the flat one.

    SGD, Adam, AdamW, Adadelta and RMSprop of `torch.optim` and the optimizers of `jumar.amp.optimizers` can; groups,
    state, hooks and learning rate schedulers stay. For others, subclasses and parameters that cannot lie in flat
    buffers nothing is changed and the reason is returned. `buffers`: those of another part of the program that
    flattened the same parameters; two sets of buffers would take them from each other at every step.
    """
    if isinstance(optimizer, FlatOptimizer):
        if buffers is not None:
            optimizer.use_buffers(buffers)
        return Combined(optimizer)
    chosen = COUNTERPARTS.get(type(optimizer))
    if chosen is None:
        names = ", ".join(kind.__name__ for kind in COUNTERPARTS)
        return Combined(
            None, f"{type(optimizer).__name__} has no flat form (torch.optim's {names} and jumar.amp.optimizers have)"
        )
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    reason = reason_against(listed) or next(filter(None, map(reason_against_options, optimizer.param_groups)), None)
    if reason:
        return Combined(None, reason)
    # NOTE: a scheduler wrapped the step of the instance; the class's own step now tells it what it wants to know.
    optimizer.__dict__.pop("step", None)
    of_torch.forget_amp_scaling(optimizer)
    optimizer.__class__ = chosen
    assert isinstance(optimizer, FlatOptimizer)
    optimizer.use_buffers(buffers)
    return Combined(optimizer)


def buffers_of(optimizer: Optimizer) -> FlatBuffers | None:
    """Return the flat buffers of an optimizer, or None for one that has none."""
    return optimizer.stepper().follow(optimizer) if isinstance(optimizer, FlatOptimizer) else None


@torch.no_grad()
def flat_step(
    optimizer: Optimizer, *, inverse_scale: float | None = None, max_norm: float | None = None
) -> FlatOutcome:
    """Multiply all gradients by `inverse_scale`, clip them to a total Euclidean norm of `max_norm`, and update.

    Nothing is updated or counted when a gradient is infinite or not a number. One pass over the gradients finds the
    norm and what is not finite; scaling is part of the update. Afterwards the gradients are unscaled and clipped.
    Hooks of `optimizer.step` do not run. Raises InputError for an optimizer that was not combined.
    """
    if not isinstance(optimizer, FlatOptimizer):
        raise InputError(
            f"flat_step takes optimizers over flat buffers, not {type(optimizer).__name__}; call "
            "jumar.amp.flat.combine(optimizer) first."
        )
    optimizer._opt_called = True
    return optimizer.stepper().guarded_step(optimizer, inverse_scale, max_norm)
