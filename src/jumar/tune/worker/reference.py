"""What outputs are judged by: the operator or graph in float64, else in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from jumar.tune.graph import Graph
from jumar.tune.graph.widen import widened, widened_tensor, widened_tensors
from jumar.tune.signature import function_of
from jumar.tune.task import Function
from jumar.tune.work import Work

Exact = Callable[[list[torch.Tensor], Sequence[int]], "list[Any] | None"]
"""From variable inputs and the places of those that are written to, to outputs and written inputs; None: no better
reference than the default."""

_DTYPES = (torch.float64, torch.float32)


def widening(plain: Function) -> Exact:
    """Return the reference of a function of tensors that takes any dtype."""

    def compute(tensors: list[torch.Tensor], written: Sequence[int]) -> list[Any] | None:
        if not any(tensor.is_floating_point() for tensor in tensors):
            return None
        for dtype in _DTYPES:
            found = _computed(plain, tensors, written, dtype)
            if found is not None:
                return found
        return None

    return compute


def widening_of(work: Work, constants: Mapping[int, torch.Tensor]) -> Callable[[Function], Exact]:
    """Return what makes the reference of `work`: its weights, and the dtypes that a graph names, are widened too."""

    def compute(tensors: list[torch.Tensor], written: Sequence[int]) -> list[Any] | None:
        floats = [spec for spec in work.tensors.values() if getattr(torch, spec.dtype).is_floating_point]
        for dtype in _DTYPES:
            wide = _in_dtype(work, dtype)
            if wide is None or all(getattr(torch, spec.dtype) is dtype for spec in floats):
                return None
            found = _computed(function_of(wide, widened_tensors(constants, dtype)), tensors, written, dtype)
            if found is not None:
                return found
        return None

    return lambda _: compute


def _in_dtype(work: Work, dtype: torch.dtype) -> Work | None:
    return widened(work, str(dtype).removeprefix("torch.")) if isinstance(work, Graph) else work


def _computed(
    function: Function, tensors: list[torch.Tensor], written: Sequence[int], dtype: torch.dtype
) -> list[Any] | None:
    wide = [widened_tensor(tensor, dtype) for tensor in tensors]
    for place in written:
        if wide[place] is tensors[place]:
            wide[place] = tensors[place].clone()
    try:
        with _default(dtype), drawing_alike():
            outputs = function(*wide)
    except (RuntimeError, NotImplementedError):  # no kernel for this dtype
        return None
    given = [outputs] if outputs is None or isinstance(outputs, torch.Tensor) else list(outputs)
    return [*given, *(wide[place] for place in written)]


@contextmanager
def drawing_alike() -> Iterator[None]:
    """Let work that draws random numbers draw the same ones in each run that is compared."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    """Let operators that name no dtype (`arange`, `full`) make numbers of `dtype`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
