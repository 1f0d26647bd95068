"""What is expected of a candidate, by which rule it is judged, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from jumar.tune.task import Function
from jumar.tune.worker.reference import Exact, widening

Output = torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to be computed from some inputs: outputs, then written inputs."""

    default: Sequence[Output]
    """As PyTorch computes it."""
    reference: Sequence[Output]
    """In a wider dtype."""


def _anew(compute: Callable[[], Expected]) -> Expected:
    return compute()


@dataclass(frozen=True, slots=True)
class Agreement:
    """`detail` is empty when the outputs agree."""

    worst_error: float
    allowed_error: float
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How outputs are judged."""

    expected: Callable[[Callable[[], Expected]], Expected] = _anew
    """Returns what is to be computed from the inputs as they are now; given what computes it, where nobody knows."""
    exact: Callable[[Function], Exact] = widening
    """Makes what computes the reference out of the default."""
    error_budget: float | None = None
    """Allowed error; None: by the dtype."""
    num_operators: int = 1
    written: Sequence[int] = ()
    """Places, among the variable inputs, of those that a call writes to."""
    may_reuse: bool = False
    """The candidate may return the same memory in every call."""
    num_gradients: int = 0
    """So many outputs, the last ones, are gradients, which are judged together (`judged.Among`)."""


def worst(agreements: Sequence[Agreement]) -> Agreement:
    """Return the disagreement if there is one, else the agreement with the greatest error."""
    return max(agreements, key=lambda one: (bool(one.detail), one.worst_error), default=Agreement(0.0, 0.0))
