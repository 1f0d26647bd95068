"""Where a skipped step comes from: the parameters whose gradients were not finite, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

PERSISTENT = 8
"""Skipped steps in a row from which the scale is not the cause: it has fallen to a 256th by then."""

_NAMES: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_PLACES: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedStep:
    """A step whose update was left out because a gradient had NaN or Inf."""

    step: int
    """Number of the decision about this loss, from 0."""
    loss_id: int
    loss_scale: float
    """The scale that the loss was multiplied with."""
    next_loss_scale: float
    parameters: tuple[str, ...]
    """Parameters with NaN or Inf in their gradients, the model's last one first: a backward pass mostly goes that way.
    Empty when only a chip's overflow flag, or another rank, says so."""
    num_gradients: int
    """Gradients that were looked at."""

    @property
    def origin(self) -> str:
        """The first of `parameters`; empty for none. A recording names the operator."""
        return self.parameters[0] if self.parameters else ""

    def __str__(self) -> str:
        if not self.parameters:
            return f"None of {self.num_gradients} gradients here has NaN or Inf: a chip's flag or another rank says so"
        return (
            f"{len(self.parameters)} of {self.num_gradients} gradients have NaN or Inf; the model's last parameter "
            f"among them is {self.origin}"
        )


def remember_names(models: Iterable[nn.Module]) -> None:
    """Know the parameters of the models by name; those of several models begin with `model0.`, `model1.`."""
    listed = list(models)
    for number, model in enumerate(listed):
        prefix = f"model{number}." if len(listed) > 1 else ""
        for place, (name, parameter) in enumerate(model.named_parameters()):
            _NAMES[parameter] = prefix + name
            _PLACES[parameter] = (number, place)


def name_of(parameter: torch.Tensor) -> str:
    """Return a parameter's name, or its shape where it is in no model that `initialize` was given."""
    found: str | None = _NAMES.get(parameter)  # type: ignore[no-untyped-call]
    return found if found is not None else f"a parameter {list(parameter.shape)}"


def not_finite(parameters: Iterable[torch.Tensor]) -> tuple[str, ...]:
    """Return the names of parameters whose gradients have NaN or Inf, the model's last one first."""
    found = [
        parameter
        for parameter in parameters
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all())
    ]
    found.sort(key=lambda parameter: _PLACES.get(parameter) or (-1, -1), reverse=True)  # type: ignore[no-untyped-call]
    return tuple(name_of(parameter) for parameter in found)
