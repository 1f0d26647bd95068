"""`Stepper`: makes the steps of an optimizer over flat buffers. `FlatOutcome`: what a guarded step did."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from jumar.amp.flat.buffers import FlatBuffers
from jumar.amp.flat.formulas.formula import Formula
from jumar.amp.flat.formulas.norm import norm_or_none
from jumar.amp.flat.run import Run
from jumar.amp.flat.share import Share, shares_of

Kind = tuple[int, torch.device, torch.dtype]
"""Number of a group, device and dtype: what is updated together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatOutcome:
    """What `flat_step` did."""

    found_inf: bool
    """A gradient was infinite or not a number, so nothing was updated."""
    norm: float | None
    """The Euclidean norm of all gradients, unscaled and not clipped; None where it was not asked for or not finite."""


class Stepper:
    """Steps of one optimizer: its parameters in `FlatBuffers`, its states beside them, one `Formula`."""

    def __init__(self, optimizer: Optimizer, formula: Formula, buffers: FlatBuffers | None = None) -> None:
        self.formula = formula
        self.buffers = FlatBuffers([]) if buffers is None else buffers
        self._shares: list[list[Share]] = []
        self._counted: list[Share] = []
        self._seen: tuple[int, object, int] = (-1, None, 0)
        self.follow(optimizer)

    def step(self, optimizer: Optimizer) -> None:
        """Update all parameters that have a gradient. Raises InputError for sparse gradients."""
        self._update(optimizer, self._runs(optimizer))

    def guarded_step(self, optimizer: Optimizer, inverse_scale: float | None, max_norm: float | None) -> FlatOutcome:
        """Unscale, look for what is not finite, clip, and update: see `jumar.amp.flat.flat_step`."""
        found = self._runs(optimizer)
        unscaled = 1.0 if inverse_scale is None else inverse_scale
        norm = norm_or_none([run.gradient for runs in found.values() for run in runs])
        if norm is None or not math.isfinite(unscaled):
            for share in self._counted:
                share.uncount()
            return FlatOutcome(found_inf=True, norm=None)
        norm *= abs(unscaled)
        clip = 1.0 if max_norm is None else min(1.0, max_norm / (norm + 1e-6))
        for runs in found.values():
            for run in runs:
                run.factor = unscaled * clip
        self._update(optimizer, found)
        return FlatOutcome(found_inf=False, norm=norm if max_norm is not None else None)

    def _update(self, optimizer: Optimizer, found: dict[Kind, list[Run]]) -> None:
        self.formula.see([run for runs in found.values() for run in runs])
        for (index, *_), runs in found.items():
            self.formula.update(runs, optimizer.param_groups[index])

    def zero_grad(self, optimizer: Optimizer, set_to_none: bool) -> None:
        """Clear the gradients: see `FlatBuffers.zero_grad`."""
        self.follow(optimizer)
        self.buffers.zero_grad(set_to_none)

    def _runs(self, optimizer: Optimizer) -> dict[Kind, list[Run]]:
        """Return what to update, by group, device and dtype; count the step."""
        self.buffers.refresh()
        self.follow(optimizer)
        present = {id(buffer): buffer.gather(with_large=False) for buffer in self.buffers.buffers}
        found: dict[Kind, list[Run]] = {}
        self._counted = []
        for index, (shares, group) in enumerate(zip(self._shares, optimizer.param_groups, strict=True)):
            for share in shares:
                runs = share.runs(present[id(share.buffer)], optimizer.state, group)
                if runs:
                    found.setdefault((index, share.buffer.device, share.buffer.dtype), []).extend(runs)
                    self._counted.append(share)
        return found

    def follow(self, optimizer: Optimizer) -> FlatBuffers:
        """Take in what changed beside the gradients: groups added, a state loaded, buffers made anew."""
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        generation, state, known = self._seen
        if generation == self.buffers.generation and state is optimizer.state and known == count:
            return self.buffers
        have = {id(parameter) for parameter in self.buffers.parameters}
        added = [one for group in optimizer.param_groups for one in group["params"] if id(one) not in have]
        if added:
            self.buffers.extend(added)
        self._shares = shares_of(self.buffers.buffers, optimizer.param_groups, self.formula)
        self._seen = (self.buffers.generation, optimizer.state, count)
        return self.buffers
