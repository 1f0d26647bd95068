"""Do a candidate's outputs agree with the reference?

The reference is the operator or graph itself on the same inputs widened to float64 (to float32 where it has no
float64 kernel). Errors are the greatest absolute difference over the greatest absolute value of the
reference. A candidate may have

    allowed = max(4 × error as PyTorch runs it, 8 × eps(dtype), min(8 × eps(dtype) × √operators, 1e-3))

so that long sums, which every implementation rounds differently, are judged by what the default shows
on the very same numbers; the last term because the roundings of operators one after the other add up like a
random walk. With an error budget that is what is allowed, and integers may differ in that share of elements.
Elements that are not finite must be in the same places with the same values, outputs of integers must be equal,
and shapes, dtypes and strides (of dimensions of more than one element) are the same.

Before the candidate runs, blocks of memory of its outputs' sizes are filled with NaN and freed, so that memory it
returns without having written it shows. Outputs of its last call must keep their values while it runs again.
Inputs that a graph writes to are compared as outputs and put back. Work that draws random numbers (dropout in a
training step) draws them from the same seed in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from jumar.tune.inputs import overwrite
from jumar.tune.malloc import perturbed
from jumar.tune.task import Function
from jumar.tune.worker.reference import Exact, drawing_alike, widening

FACTOR_OF_DEFAULT = 4.0
UNITS_OF_EPSILON = 8.0
GREATEST_OF_DEPTH = 1e-3
NOT_FINITE = "it has NaN or Inf where the operator has none, or the reverse"
PIECE = 1 << 20
"""Elements that are compared at once."""
_NUM_POISONED = 3
"""Blocks of each output's size: a candidate may keep intermediate results in some of them."""

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
    """So many outputs, the last ones, are gradients, which are judged together (`_Among`)."""


@dataclass(slots=True)
class Judge:
    """Compares a candidate with the default, again and again on what `tensors` hold."""

    plain: Function
    candidate: Function
    tensors: list[torch.Tensor]
    rule: Rule = field(default_factory=Rule)
    _held: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    """Outputs of the candidate's last call, and what was in them."""

    def compare(self) -> Agreement:
        """Run both and compare every output; also check that the inputs were left as they are."""
        before = [tensor.clone() for tensor in self.tensors]
        with perturbed() as forgets:
            expected = self.rule.expected(lambda: self._expected(before))
            default, reference = expected.default, expected.reference
            if not forgets:
                _poison(default)
            outputs, held = self._run(self.candidate, before)
        if len(outputs) != len(default):
            num, must = len(outputs) - len(self.rule.written), len(default) - len(self.rule.written)
            return Agreement(0.0, 0.0, f"it returns {num} tensors where the operator returns {must}")
        if not all(_same(old, new) for old, new in zip(before, self.tensors, strict=True)):
            return Agreement(0.0, 0.0, "it changes its inputs")
        if not self._kept():
            return Agreement(0.0, 0.0, "it writes over the outputs of an earlier call")
        self._hold(held, outputs)
        compared = list(zip(outputs, default, reference, strict=True))
        first = len(compared) - self.rule.num_gradients
        among = _among(compared[first:])
        found = [
            _compare_one(self.rule, *three, _ALONE if place < first else among) for place, three in enumerate(compared)
        ]
        return worst([*found, _together(self.rule, compared[first:])])

    def _expected(self, before: Sequence[torch.Tensor]) -> Expected:
        default, _ = self._run(self.plain, before)
        return Expected(default, self._reference(default))

    def _run(self, function: Function, before: Sequence[torch.Tensor]) -> tuple[list[Output], list[Output]]:
        """Return copies of the outputs and of the written inputs, which are put back, and the outputs themselves."""
        with drawing_alike():
            given = outputs_of(function(*self.tensors))
        copies = [None if output is None else output.clone() for output in given]
        for place in self.rule.written:
            copies.append(self.tensors[place].clone())
            overwrite(self.tensors[place], before[place])
        return copies, given

    def _reference(self, default: Sequence[Output]) -> list[Output]:
        exact = self.rule.exact(self.plain)(self.tensors, self.rule.written)
        return list(default) if exact is None or len(exact) != len(default) else exact

    def _kept(self) -> bool:
        return self.rule.may_reuse or all(_same(output, copy) for output, copy in self._held)

    def _hold(self, given: Sequence[Output], copies: Sequence[Output]) -> None:
        """Remember the outputs. One that is an input's own memory changes with that and is left out."""
        inputs = {tensor.untyped_storage().data_ptr() for tensor in self.tensors}
        self._held = [
            (output, copy)
            for output, copy in zip(given, copies, strict=False)
            if output is not None and copy is not None and output.untyped_storage().data_ptr() not in inputs
        ]


def compare(plain: Function, candidate: Function, tensors: list[torch.Tensor], rule: Rule | None = None) -> Agreement:
    """Compare once; see `Judge.compare`."""
    return Judge(plain, candidate, tensors, rule or Rule()).compare()


def outputs_of(outputs: Any) -> list[Output]:
    """Return what a function returned as a list of tensors and Nones."""
    return [outputs] if outputs is None or isinstance(outputs, torch.Tensor) else list(outputs)


def _poison(outputs: Sequence[Output]) -> None:
    """Fill memory that the candidate's outputs will probably lie in."""
    sizes = [output.untyped_storage().nbytes() for output in outputs if output is not None]
    device = next((output.device for output in outputs if output is not None), None)
    blocks = [
        torch.full((size,), 0xFF, dtype=torch.uint8, device=device) for size in sizes for _ in range(_NUM_POISONED)
    ]
    del blocks


@dataclass(frozen=True, slots=True)
class _Among:
    """What gradients are judged by besides their own values.

    Where an activation is as good as zero, rounding decides whether a ReLU lets its gradient through, so that one
    gradient jumps and the next does not: what the default shows on any of them is allowed on all, and all of them
    together are compared once more (`_together`). A gradient that is zero but for rounding is judged by the size of
    the others.
    """

    usual: float = 0.0
    """Greatest error of the default."""
    least_scale: float = 0.0
    """Values below this are rounding errors of the greatest ones."""


_ALONE = _Among()


def _among(gradients: Sequence[tuple[Output, Output, Output]]) -> _Among:
    known = [(two, three.to(torch.float64)) for _, two, three in gradients if two is not None and three is not None]
    pairs = [(default, exact) for default, exact in known if exact.numel() and bool(torch.isfinite(exact).all())]
    scales = [(exact.abs().max().item(), torch.finfo(default.dtype).eps) for default, exact in pairs]
    least = max((UNITS_OF_EPSILON * eps * scale for scale, eps in scales), default=0.0)
    errors = [
        _error(default, exact, max(scale, least)) for (default, exact), (scale, _) in zip(pairs, scales, strict=True)
    ]
    return _Among(max(errors, default=0.0), least)


def _together(rule: Rule, gradients: Sequence[tuple[Output, Output, Output]]) -> Agreement:
    """Compare all gradients as one long vector, by the length of what they differ by: jumps of few even out there."""
    known = [
        (one, two, three)
        for one, two, three in gradients
        if one is not None and two is not None and three is not None and one.shape == two.shape
    ]
    if not known:
        return Agreement(0.0, 0.0)
    lengths = [0.0, 0.0, 0.0]
    for output, default, reference in known:
        exact = reference.to(torch.float64)
        differences = (output - exact, default - exact, exact)
        for place, difference in enumerate(differences):
            lengths[place] += difference.square().sum().item()
    error, usual, scale = (math.sqrt(length) for length in lengths)
    eps = max(torch.finfo(default.dtype).eps for _, default, _ in known)
    allowed = _allowed(usual / (scale or 1.0), eps, rule)
    if not math.isfinite(scale) or error / (scale or 1.0) <= allowed:
        return Agreement(error / (scale or 1.0) if math.isfinite(scale) else 0.0, allowed)
    return Agreement(
        error / (scale or 1.0), allowed,
        f"its gradients together are off by {error / (scale or 1.0):.3g} of their length and may be by {allowed:.3g}",
    )  # fmt: skip


def _compare_one(rule: Rule, output: Output, default: Output, reference: Output, among: _Among = _ALONE) -> Agreement:
    if output is None or default is None or reference is None:
        fine = output is None and default is None
        return Agreement(0.0, 0.0, "" if fine else "it returns nothing where a tensor must be, or the reverse")
    for what in ("shape", "dtype", "device"):
        if getattr(output, what) != getattr(default, what):
            return Agreement(0.0, 0.0, f"its {what} is {getattr(output, what)} and must be {getattr(default, what)}")
    if _strides(output) != _strides(default):
        return Agreement(0.0, 0.0, f"its strides are {output.stride()} and must be {default.stride()}")
    if output.is_complex():
        output, default, reference = (torch.view_as_real(one.resolve_conj()) for one in (output, default, reference))
    if not output.is_floating_point():
        return _by_equality(output, default, rule.error_budget)
    judged = _by_error if _is_finite(default) else _by_finite
    return judged(rule, output, default, reference, among)


def _by_finite(
    rule: Rule, output: torch.Tensor, default: torch.Tensor, reference: torch.Tensor, among: _Among
) -> Agreement:
    """Compare where the default is finite; elsewhere, both must be the same."""
    finite = torch.isfinite(default)
    if not _same(output[~finite], default[~finite]):
        return Agreement(float("inf"), 0.0, NOT_FINITE)
    return _by_error(rule, output[finite], default[finite], reference[finite], among)


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


def _by_error(
    rule: Rule, output: torch.Tensor, default: torch.Tensor, reference: torch.Tensor, among: _Among
) -> Agreement:
    if not _is_finite(output):
        return Agreement(float("inf"), 0.0, NOT_FINITE)
    scale = max(_greatest(reference) if reference.numel() else 0.0, among.least_scale)
    error, usual = (_error(values, reference, scale) for values in (output, default))
    allowed = _allowed(max(usual, among.usual), torch.finfo(output.dtype).eps, rule)
    if error <= allowed:
        return Agreement(error, allowed)
    return Agreement(error, allowed, f"its error is {error:.3g} of the greatest value and may be {allowed:.3g}")


def _allowed(usual: float, eps: float, rule: Rule) -> float:
    if rule.error_budget is not None:
        return rule.error_budget
    units = UNITS_OF_EPSILON * eps
    return max(FACTOR_OF_DEFAULT * usual, units, min(units * math.sqrt(rule.num_operators), GREATEST_OF_DEPTH))


def _error(values: torch.Tensor, exact: torch.Tensor, scale: float) -> float:
    return _greatest(values, exact) / (scale or 1.0) if values.numel() else 0.0


def _greatest(values: torch.Tensor, exact: torch.Tensor | None = None) -> float:
    """Return the greatest absolute value, or difference from `exact`, in float64; NaN where there is one."""
    if exact is None:
        found = [piece.abs().max().to(torch.float64) for (piece,) in _in_pieces(values)]
    else:
        pairs = _in_pieces(values, exact)
        found = [(one.to(torch.float64) - other.to(torch.float64)).abs_().max() for one, other in pairs]
    return torch.stack(found).max().item()


def _is_finite(tensor: torch.Tensor) -> bool:
    return all(bool(torch.isfinite(piece).all()) for (piece,) in _in_pieces(tensor))


def _in_pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield tensors of one shape piece by piece.

    NOTE: temporary tensors of a piece stay in the caches and in the heap; those of a whole 85 MB output are mapped
    and faulted in afresh each, which took most of a comparison's time.
    """
    if tensors[0].numel() <= PIECE or not all(tensor.is_contiguous() for tensor in tensors):
        yield tensors
        return
    yield from zip(*(torch.split(tensor.view(-1), PIECE) for tensor in tensors), strict=True)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors are equal, NaN being equal to NaN."""
    if left.is_complex():
        left, right = torch.view_as_real(left.resolve_conj()), torch.view_as_real(right.resolve_conj())
    if not left.is_floating_point():
        return torch.equal(left, right)
    return all(
        torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())
        for one, other in _in_pieces(left, right)
    )


def worst(agreements: Sequence[Agreement]) -> Agreement:
    """Return the disagreement if there is one, else the agreement with the greatest error."""
    return max(agreements, key=lambda one: (bool(one.detail), one.worst_error), default=Agreement(0.0, 0.0))
