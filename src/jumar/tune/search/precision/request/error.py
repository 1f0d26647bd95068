"""How wrong outputs are: the greatest difference over the greatest value, and the user's own metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path

import torch

from jumar.base.errors import UsageError
from jumar.tune.model.process import from_here, named

Metric = Callable[[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]], float]
"""From outputs and reference outputs to an error: 0 is none, and the budget is how far from it is allowed."""


def error_of(output: torch.Tensor | None, reference: torch.Tensor | None) -> float:
    """Return max|output - reference| / max|reference|, over the elements where the reference is finite.

    Infinite where the output is not finite and the reference is, or differs from it where that is not finite
    either, and for another shape. For integers and booleans the share of elements that differ.
    """
    if output is None or reference is None:
        return 0.0 if output is reference else math.inf
    if output.shape != reference.shape:
        return math.inf
    if not (reference.is_floating_point() or reference.is_complex()):
        return float((output != reference).sum()) / max(reference.numel(), 1)
    wide = torch.complex128 if reference.is_complex() else torch.float64
    return _relative(output.to(wide), reference.to(wide))


def _relative(computed: torch.Tensor, exact: torch.Tensor) -> float:
    finite = torch.isfinite(exact)
    left, right = computed[~finite], exact[~finite]
    is_same = bool(((left == right) | (left.isnan() & right.isnan())).all())
    if not is_same or not bool(torch.isfinite(computed[finite]).all()):
        return math.inf
    if not bool(finite.any()):
        return 0.0
    scale = float(exact[finite].abs().max())
    return float((computed[finite] - exact[finite]).abs().max()) / (scale or 1.0)


def errors_of(outputs: Sequence[torch.Tensor | None], reference: Sequence[torch.Tensor | None]) -> list[float]:
    """Return the error of each output; infinite ones when there are fewer outputs than there must be."""
    if len(outputs) != len(reference):
        return [math.inf] * len(reference)
    return [error_of(computed, exact) for computed, exact in zip(outputs, reference, strict=True)]


def load_metric(path: str) -> Metric:
    """Return the callable at `package.module:name` or `file.py:name`. Raises UsageError when there is none."""
    module, _, name = path.rpartition(":")
    try:
        with from_here(module):
            found = named(module, name)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"--metric {path} cannot be imported ({reason}); give module:callable or file.py:callable of "
            "(outputs, reference_outputs)."
        ) from error
    if not callable(found):
        raise UsageError(f"--metric {path} must be callable; got {type(found).__name__}.")
    return found  # type: ignore[no-any-return]  # what it returns is checked where it is called


def metric_from_anywhere(path: str) -> str:
    """Return a metric's place for a process that runs in another folder: a file by its whole path."""
    module, _, name = path.rpartition(":")
    return f"{Path(module).absolute()}:{name}" if module.endswith(".py") else path


def number_of(said: object) -> float:
    """Return how far what a metric said is from 0, which is no error. Raises TypeError for what is no number.

    A negative number is within every budget, and most are no errors: an accuracy with a minus, a signed difference,
    the rounding of `1 - cosine`. By their size the first two are refused, and the last is nothing.
    """
    value = said.item() if isinstance(said, torch.Tensor) and said.numel() == 1 else said
    if not isinstance(value, Real):
        many = f" of {said.numel()} elements" if isinstance(said, torch.Tensor) else ""
        raise TypeError(f"it returned a {type(said).__name__}{many}, and must return a number")
    return abs(float(value))
