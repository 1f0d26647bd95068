"""Do a candidate's outputs agree with the reference?

The reference is the operator or graph itself on the same inputs widened to float64 (to float32 where it has no
float64 kernel). Errors are the greatest absolute difference over the greatest absolute value of the
reference. A candidate may have

    allowed = max(4 × usual, 8 × eps(dtype), min(8 × eps(dtype) × √operators, 1e-3, 8 × shaken))

`usual` is the error as PyTorch runs it: long sums, which every implementation rounds differently, are judged by what
the default shows on the very same numbers. Of a graph that may be little by chance, and the roundings of operators one
after the other add up, at most like a random walk; `shaken` is what they come to at these outputs, measured: the
greatest error of three further runs of PyTorch in which every number that an operator makes is moved at random by up to
eps (`shaken`, Monte Carlo arithmetic). Eight times that is a graph whose every operator is off by the 8 × eps that an
operator alone may be off by. The runs are made where they decide. MobileNetV2 has 151 operators, by whose number alone
an error of 1.2e-5 would be allowed: engines that compute it rightly were off by 2e-7 to 6e-7, one with pixels inside
that were wrong by a sixth by 9.4e-6, and `shaken` allows 2.4e-6 to 3.2e-6.

Where `usual` alone is more than rounding (numbers that fell to the other side of a step), the root of the sum of
squares of the differences over that of the reference must not be more than 4 × the default's either.

With an error budget that is what is allowed, and integers may differ in that share of elements. Gradients of a training
step are judged without `shaken`: a gradient jumps at every ReLU.
Elements that are not finite must be in the same places with the same values, outputs of integers must be equal,
and shapes, dtypes and strides (of dimensions of more than one element) are the same.

Before the candidate runs, blocks of memory of its outputs' sizes are filled with NaN and freed, so that memory it
returns without having written it shows. Outputs of its last call must keep their values while it runs again.
Inputs that a graph writes to are compared as outputs and put back. Work that draws random numbers (dropout in a
training step) draws them from the same seed in every run.

What rounding alone does to a graph's outputs: its operators' results moved at random by as much as they are rounded.

This is Monte Carlo arithmetic (D. S. Parker, *Monte Carlo Arithmetic*, UCLA CSD-970002, 1997) with the operator as the
unit: each number that an operator of PyTorch makes is multiplied by 1 - eps, 1 or 1 + eps of its dtype, at random, and
what that does at the outputs is measured. It knows what a formula of the number of operators cannot: that a mean over
many pixels evens errors out, and a difference of nearly equal numbers makes them large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jumar.tune.graph.inputs import overwrite
from jumar.tune.measure.worker.judged import among, is_same, judge_one, together
from jumar.tune.measure.worker.reference import Agreement, Expected, Output, Rule, drawing_alike, worst
from jumar.tune.model.malloc import perturbed
from jumar.tune.model.task import Function

__all__ = ["Agreement", "Expected", "Judge", "Output", "Rule", "compare", "outputs_of", "worst"]

_NUM_POISONED = 3
"""Blocks of each output's size: a candidate may keep intermediate results in some of them."""


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
            default = expected.default
            if not forgets:
                _poison(default)
            outputs, held = self._run(self.candidate, before)
        if len(outputs) != len(default):
            num, must = len(outputs) - len(self.rule.written), len(default) - len(self.rule.written)
            return Agreement(0.0, 0.0, f"it returns {num} tensors where the operator returns {must}")
        if not all(is_same(old, new) for old, new in zip(before, self.tensors, strict=True)):
            return Agreement(0.0, 0.0, "it changes its inputs")
        if not self._kept():
            return Agreement(0.0, 0.0, "it writes over the outputs of an earlier call")
        self._hold(held, outputs)
        return self._judged(outputs, expected, Shaken(self.plain, lambda function: self._run(function, before)[0]))

    def agrees_on_not_finite(self) -> bool:
        """Tell whether both have NaN, Inf and -Inf at the same places of their outputs; what is finite is not compared.

        They agree where PyTorch raises, as it does for an index that is made of NaN; an engine that raises alone does
        not agree.
        """
        before = [tensor.clone() for tensor in self.tensors]
        try:
            default, _ = self._run(self.plain, before)
        except _IMPOSSIBLE:
            return True
        try:
            outputs, _ = self._run(self.candidate, before)
        except Exception:  # noqa: BLE001 - an engine may raise anything
            return False
        return len(default) == len(outputs) and all(map(_same_not_finite, default, outputs))

    def _judged(self, outputs: Sequence[Output], expected: Expected, shaken: Shaken) -> Agreement:
        """Judge outputs, then gradients, then written inputs, and all gradients together."""
        compared = list(zip(outputs, expected.default, expected.reference, strict=True))
        last = len(compared) - len(self.rule.written)
        gradients = range(last - self.rule.num_gradients, last)
        of_gradients = among([compared[place] for place in gradients])
        found = [
            judge_one(self.rule, *three, partial(shaken.at, place), of_gradients if place in gradients else None)
            for place, three in enumerate(compared)
        ]
        return worst([*found, together(self.rule, [compared[place] for place in gradients])])

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
        return self.rule.may_reuse or all(is_same(output, copy) for output, copy in self._held)

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


def _same_not_finite(default: Output, output: Output) -> bool:
    if default is None or output is None:
        return default is output
    if not _has_fractions(default) or default.shape != output.shape:
        return default.shape == output.shape
    pairs = zip(_parts(default), _parts(output), strict=True)
    return all(is_same(_only_not_finite(one), _only_not_finite(other)) for one, other in pairs)


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.real, tensor.imag] if tensor.is_complex() else [tensor]


def _only_not_finite(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(tensor), torch.zeros_like(tensor), tensor)


def _poison(outputs: Sequence[Output]) -> None:
    """Fill memory that the candidate's outputs will probably lie in."""
    sizes = [output.untyped_storage().nbytes() for output in outputs if output is not None]
    device = next((output.device for output in outputs if output is not None), None)
    blocks = [
        torch.full((size,), 0xFF, dtype=torch.uint8, device=device) for size in sizes for _ in range(_NUM_POISONED)
    ]
    del blocks


NUM_SHAKEN = 3
"""Runs, of which the greatest error counts: of one alone a single output may be right by chance."""

_IMPOSSIBLE = (RuntimeError, IndexError, ValueError, TypeError)
"""What a graph may raise that takes indices from numbers that were moved, or operators that know no such mode."""


class Shaken:
    """The default's outputs under `NUM_SHAKEN` draws, computed when they are first asked for."""

    def __init__(self, plain: Function, run: Callable[[Function], Sequence[Output]]) -> None:
        """`run` calls a function on the inputs and returns its outputs."""
        self._plain = plain
        self._run = run
        self._made: list[Sequence[Output]] | None = None

    def at(self, place: int) -> list[torch.Tensor]:
        """Return one output under each draw; nothing where the graph cannot be run so."""
        if self._made is None:
            try:
                self._made = [self._run(_shaking(self._plain, seed)) for seed in range(NUM_SHAKEN)]
            except _IMPOSSIBLE:
                self._made = []
        return [one for outputs in self._made if place < len(outputs) and (one := outputs[place]) is not None]


def _shaking(plain: Function, seed: int) -> Function:
    def call(*tensors: torch.Tensor) -> Any:
        with _Shaking(seed):
            return plain(*tensors)

    return call


class _Shaking(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves what each operator makes of other numbers; constants and views stay as they are."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        read = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        if any(_has_fractions(one) for one in read):
            taken = {one.untyped_storage().data_ptr() for one in read}
            new = [one for one in tree_leaves(made) if isinstance(one, torch.Tensor) and _has_fractions(one)]
            for one in new:
                if one.numel() and one.untyped_storage().data_ptr() not in taken:
                    self._move(one)
        return made

    def _move(self, tensor: torch.Tensor) -> None:
        real = tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype
        steps = torch.randint(-1, 2, tensor.shape, generator=self._generator, dtype=torch.int8)
        tensor.mul_(steps.to(real).mul_(torch.finfo(real).eps).add_(1))


def _has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
