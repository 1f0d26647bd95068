"""Do a candidate's outputs agree with the reference?

The reference is the operator itself on the same inputs widened to float64 (to float32 where it has no
float64 kernel). Errors are the greatest absolute difference over the greatest absolute value of the
reference. A candidate may have

    allowed = max(4 × error of the operator as PyTorch runs it, 8 × eps(dtype))

so that long sums, which every implementation rounds differently, are judged by what the default shows
on the very same numbers. Elements that are not finite must be in the same places with the same values,
outputs of integers must be equal, and shapes, dtypes and strides are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from jumar.tune.inputs import in_float64
from jumar.tune.providers.borders import as_tuple
from jumar.tune.task import Function

FACTOR_OF_DEFAULT = 4.0
UNITS_OF_EPSILON = 8.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """`detail` is empty when the outputs agree."""

    worst_error: float
    allowed_error: float
    detail: str = ""


def compare(plain: Function, candidate: Function, tensors: list[torch.Tensor]) -> Agreement:
    """Run both on `tensors` and compare every output; also check that the inputs were left as they are."""
    before = [tensor.clone() for tensor in tensors]
    default = [output.clone() for output in as_tuple(plain(*tensors))]
    reference = _reference(plain, tensors, default)
    outputs = as_tuple(candidate(*tensors))
    if len(outputs) != len(default):
        return Agreement(0.0, 0.0, f"it returns {len(outputs)} tensors where the operator returns {len(default)}")
    if not all(_same(old, new) for old, new in zip(before, tensors, strict=True)):
        return Agreement(0.0, 0.0, "it changes its inputs")
    return worst([_compare_one(*three) for three in zip(outputs, default, reference, strict=True)])


def _reference(plain: Function, tensors: list[torch.Tensor], default: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if not any(tensor.is_floating_point() for tensor in tensors):
        return list(default)
    for widen in (in_float64, _in_float32):
        try:
            return list(as_tuple(plain(*widen(tensors))))
        except (RuntimeError, NotImplementedError):  # no kernel for this dtype
            continue
    return list(default)


def _in_float32(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.to(torch.float32) if tensor.is_floating_point() else tensor for tensor in tensors]


def _compare_one(output: torch.Tensor, default: torch.Tensor, reference: torch.Tensor) -> Agreement:
    for what in ("shape", "dtype", "device"):
        if getattr(output, what) != getattr(default, what):
            return Agreement(0.0, 0.0, f"its {what} is {getattr(output, what)} and must be {getattr(default, what)}")
    if output.stride() != default.stride():
        return Agreement(0.0, 0.0, f"its strides are {output.stride()} and must be {default.stride()}")
    if not output.is_floating_point():
        return Agreement(0.0, 0.0, "" if torch.equal(output, default) else "its integers differ")
    finite = torch.isfinite(default)
    if not _same(output[~finite], default[~finite]) or not bool(torch.isfinite(output[finite]).all()):
        return Agreement(float("inf"), 0.0, "it has NaN or Inf where the operator has none, or the reverse")
    return _by_error(output[finite], default[finite], reference[finite])


def _by_error(output: torch.Tensor, default: torch.Tensor, reference: torch.Tensor) -> Agreement:
    exact = reference.to(torch.float64)
    scale = exact.abs().max().item() if exact.numel() else 0.0
    error, usual = (_error(values, exact, scale) for values in (output, default))
    allowed = max(FACTOR_OF_DEFAULT * usual, UNITS_OF_EPSILON * torch.finfo(output.dtype).eps)
    if error <= allowed:
        return Agreement(error, allowed)
    return Agreement(error, allowed, f"its error is {error:.3g} of the greatest value and may be {allowed:.3g}")


def _error(values: torch.Tensor, exact: torch.Tensor, scale: float) -> float:
    if not values.numel():
        return 0.0
    return (values.to(torch.float64) - exact).abs().max().item() / (scale or 1.0)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors are equal, NaN being equal to NaN."""
    if not left.is_floating_point():
        return torch.equal(left, right)
    return bool(torch.isclose(left, right, rtol=0.0, atol=0.0, equal_nan=True).all())


def worst(agreements: Sequence[Agreement]) -> Agreement:
    """Return the disagreement if there is one, else the agreement with the greatest error."""
    return max(agreements, key=lambda one: (bool(one.detail), one.worst_error), default=Agreement(0.0, 0.0))
