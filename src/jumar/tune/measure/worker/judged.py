"""One output of a candidate, and all gradients together, judged by `agreement`'s formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from jumar.tune.measure.worker.reference import Agreement, Output, Rule

FACTOR_OF_DEFAULT = 4.0
UNITS_OF_EPSILON = 8.0
GREATEST_OF_DEPTH = 1e-3
NOT_FINITE = "it has NaN or Inf where the operator has none, or the reverse"


@dataclass(frozen=True, slots=True)
class Among:
    """What gradients are judged by besides their own values.

    Where an activation is as good as zero, rounding decides whether a ReLU lets its gradient through, so that one
    gradient jumps and the next does not: what the default shows on any of them is allowed on all, and all of them
    together are compared once more (`together`). A gradient that is zero but for rounding is judged by the size of
    the others.
    """

    usual: float = 0.0
    """Greatest error of the default."""
    least_scale: float = 0.0
    """Values below this are rounding errors of the greatest ones."""


@dataclass(frozen=True, slots=True)
class _Item:
    """One output in all its versions, which have one shape."""

    output: torch.Tensor
    default: torch.Tensor
    reference: torch.Tensor
    shaken: Callable[[], Sequence[torch.Tensor]]
    """The default where its operators' results are moved by rounding (`shaken`); it takes some runs."""
    among: Among | None
    """None for what is no gradient."""

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> _Item:
        """Return the item with every version changed in the same way."""
        return _Item(
            change(self.output), change(self.default), change(self.reference),
            lambda: [change(one) for one in self.shaken()], self.among,
        )  # fmt: skip


def judge_one(
    rule: Rule, output: Output, default: Output, reference: Output, shaken: Callable[[], Sequence[torch.Tensor]],
    among: Among | None = None,
) -> Agreement:  # fmt: skip
    """Judge one output; `shaken` is called only where the formula needs it."""
    if output is None or default is None or reference is None:
        fine = output is None and default is None
        return Agreement(0.0, 0.0, "" if fine else "it returns nothing where a tensor must be, or the reverse")
    for what in ("shape", "dtype", "device"):
        if getattr(output, what) != getattr(default, what):
            return Agreement(0.0, 0.0, f"its {what} is {getattr(output, what)} and must be {getattr(default, what)}")
    if _strides(output) != _strides(default):
        return Agreement(0.0, 0.0, f"its strides are {output.stride()} and must be {default.stride()}")
    item = _Item(output, default, reference, shaken, among)
    if output.is_complex():
        item = item.changed(lambda one: torch.view_as_real(one.resolve_conj()))
    if not item.output.is_floating_point():
        return _by_equality(item.output, item.default, rule.error_budget)
    return _by_error(rule, item) if is_finite(item.default) else _by_finite(rule, item)


def _strides(tensor: torch.Tensor) -> list[int]:
    if not tensor.numel():
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _by_equality(output: torch.Tensor, default: torch.Tensor, budget: float | None) -> Agreement:
    if torch.equal(output, default):
        return Agreement(0.0, budget or 0.0)
    share = (output != default).sum().item() / max(output.numel(), 1)
    if budget is not None and share <= budget:
        return Agreement(share, budget)
    return Agreement(share, budget or 0.0, "its integers differ")


def _by_finite(rule: Rule, item: _Item) -> Agreement:
    """Compare where the default is finite; elsewhere, both must be the same."""
    finite = torch.isfinite(item.default)
    if not is_same(item.output[~finite], item.default[~finite]):
        return Agreement(float("inf"), 0.0, NOT_FINITE)
    return _by_error(rule, item.changed(lambda one: one[finite]))


def _by_error(rule: Rule, item: _Item) -> Agreement:
    if not is_finite(item.output):
        return Agreement(float("inf"), 0.0, NOT_FINITE)
    scale = max(greatest(item.reference), 0.0 if item.among is None else item.among.least_scale) or 1.0
    error = greatest(item.output, item.reference) / scale
    usual = greatest(item.default, item.reference) / scale
    allowed = _allowed(rule, item, error, usual, scale)
    if error <= allowed:
        return _by_length(rule, item, Agreement(error, allowed))
    return Agreement(error, allowed, f"its error is {error:.3g} of the greatest value and may be {allowed:.3g}")


def _allowed(rule: Rule, item: _Item, error: float, usual: float, scale: float) -> float:
    """Return the allowed error; the shaken outputs are computed only where they decide."""
    if rule.error_budget is not None:
        return rule.error_budget
    if item.among is not None:
        return _at_most(rule, item.output.dtype, max(usual, item.among.usual))
    least = max(FACTOR_OF_DEFAULT * usual, UNITS_OF_EPSILON * torch.finfo(item.output.dtype).eps)
    most = _at_most(rule, item.output.dtype, usual)
    if not least < error <= most:
        return least if error <= least else most
    shaken = [greatest(one, item.reference) / scale for one in item.shaken()]
    if not shaken or not all(map(math.isfinite, shaken)):
        return most
    return max(least, min(most, UNITS_OF_EPSILON * max(shaken)))


def _at_most(rule: Rule, dtype: torch.dtype, usual: float) -> float:
    return max(FACTOR_OF_DEFAULT * usual, _of_rounding(rule, dtype))


def _of_rounding(rule: Rule, dtype: torch.dtype) -> float:
    """Return what the roundings of operators one after the other may come to."""
    units = UNITS_OF_EPSILON * torch.finfo(dtype).eps
    return max(units, min(units * math.sqrt(rule.num_operators), GREATEST_OF_DEPTH))


def _by_length(rule: Rule, item: _Item, found: Agreement) -> Agreement:
    """Compare once more where the default itself is off by more than rounding: few elements that fell to the other
    side of a step (`round`, `floor`, a choice of the greatest) would allow all others to be off as far."""
    rounding = _of_rounding(rule, item.output.dtype)
    if rule.error_budget is not None or item.among is not None or found.allowed_error <= rounding:
        return found
    scale = length(item.reference) or 1.0
    error = length(item.output, item.reference) / scale
    allowed = max(FACTOR_OF_DEFAULT * length(item.default, item.reference) / scale, rounding)
    if error <= allowed or not math.isfinite(scale):
        return found
    return Agreement(error, allowed, f"it is off by {error:.3g} of its length and may be by {allowed:.3g}")


def among(gradients: Sequence[tuple[Output, Output, Output]]) -> Among:
    """Return what gradients (each as computed, by default and as the reference) are judged by together."""
    known = [(two, three.to(torch.float64)) for _, two, three in gradients if two is not None and three is not None]
    pairs = [(default, exact) for default, exact in known if exact.numel() and bool(torch.isfinite(exact).all())]
    scales = [(exact.abs().max().item(), torch.finfo(default.dtype).eps) for default, exact in pairs]
    least = max((UNITS_OF_EPSILON * eps * scale for scale, eps in scales), default=0.0)
    errors = [
        greatest(default, exact) / (max(scale, least) or 1.0)
        for (default, exact), (scale, _) in zip(pairs, scales, strict=True)
    ]
    return Among(max(errors, default=0.0), least)


def together(rule: Rule, gradients: Sequence[tuple[Output, Output, Output]]) -> Agreement:
    """Compare all gradients as one long vector, by the length of what they differ by: jumps of few even out there."""
    known = [
        (one, two, three)
        for one, two, three in gradients
        if one is not None and two is not None and three is not None and one.shape == two.shape
    ]
    if not known:
        return Agreement(0.0, 0.0)
    error = math.hypot(*(length(output, reference) for output, _, reference in known))
    usual = math.hypot(*(length(default, reference) for _, default, reference in known))
    scale = math.hypot(*(length(reference) for *_, reference in known))
    if not math.isfinite(scale):
        return Agreement(0.0, 0.0)
    error, usual = error / (scale or 1.0), usual / (scale or 1.0)
    eps = max((default.dtype for _, default, _ in known), key=lambda dtype: torch.finfo(dtype).eps)
    allowed = rule.error_budget if rule.error_budget is not None else _at_most(rule, eps, usual)
    if error <= allowed:
        return Agreement(error, allowed)
    return Agreement(
        error, allowed, f"its gradients together are off by {error:.3g} of their length and may be by {allowed:.3g}"
    )


PIECE = 1 << 20
"""Elements that are compared at once."""


def greatest(values: torch.Tensor, exact: torch.Tensor | None = None) -> float:
    """Return the greatest absolute value, or difference from `exact`; 0 of nothing, NaN where there is one."""
    if not values.numel():
        return 0.0
    if exact is None:
        found = [piece.abs().max().to(torch.float64) for (piece,) in _in_pieces(values)]
    else:
        found = [difference.abs_().max() for difference in _differences(values, exact)]
    return torch.stack(found).max().item()


def length(values: torch.Tensor, exact: torch.Tensor | None = None) -> float:
    """Return the root of the sum of squares of the values, or of their differences from `exact`."""
    if not values.numel():
        return 0.0
    pieces = (piece.to(torch.float64) for (piece,) in _in_pieces(values))
    found = [torch.linalg.vector_norm(one) for one in (pieces if exact is None else _differences(values, exact))]
    whole: float = torch.linalg.vector_norm(torch.stack(found)).item()
    return whole


def is_finite(tensor: torch.Tensor) -> bool:
    """Tell whether no element is NaN or infinite."""
    return all(bool(torch.isfinite(piece).all()) for (piece,) in _in_pieces(tensor))


def is_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors are equal, NaN being equal to NaN."""
    if left.is_complex():
        left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
    if not left.is_floating_point():
        return torch.equal(left, right)
    return all(
        torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())
        for one, other in _in_pieces(left, right)
    )


def _differences(values: torch.Tensor, exact: torch.Tensor) -> Iterator[torch.Tensor]:
    for one, other in _in_pieces(values, exact):
        yield one.to(torch.float64) - other.to(torch.float64)


def _in_pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield tensors of one shape piece by piece.

    NOTE: temporary tensors of a piece stay in the caches and in the heap; those of a whole 85 MB output are mapped
    and faulted in afresh each, which took most of a comparison's time.
    """
    if tensors[0].numel() <= PIECE or not all(tensor.is_contiguous() for tensor in tensors):
        yield tensors
        return
    yield from zip(*(torch.split(tensor.view(-1), PIECE) for tensor in tensors), strict=True)
