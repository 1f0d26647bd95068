"""What rounding alone does to a graph's outputs: its operators' results moved at random by as much as they are rounded.

This is Monte Carlo arithmetic (D. S. Parker, *Monte Carlo Arithmetic*, UCLA CSD-970002, 1997) with the operator as the
unit: each number that an operator of PyTorch makes is multiplied by 1 - eps, 1 or 1 + eps of its dtype, at random, and
what that does at the outputs is measured. It knows what a formula of the number of operators cannot: that a mean over
many pixels evens errors out, and a difference of nearly equal numbers makes them large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jumar.tune.task import Function
from jumar.tune.worker.rule import Output

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
