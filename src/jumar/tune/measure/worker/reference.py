"""What outputs are judged by: the operator or graph in float64, else in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from jumar.base.findings import Json
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Work
from jumar.tune.graph.operators import function_of
from jumar.tune.model.task import Function

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


_FLOATS = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex32", "complex64", "complex128")
_REINTERPRETING = "aten::view.dtype"


def widened(graph: Graph, dtype: str) -> Graph | None:
    """Return `graph` with the floating-point dtypes that its operators name replaced by `dtype`.

    None when an operator looks at the bits of a number, so that a wider one is another computation. The inputs'
    specs stay as they are.
    """
    if any(node.operator == _REINTERPRETING for node in graph.nodes):
        return None
    return replace(graph, nodes=[node.changed(lambda argument: _wider(argument, dtype)) for node in graph.nodes])


def widened_tensors(tensors: Mapping[int, torch.Tensor], dtype: torch.dtype) -> dict[int, torch.Tensor]:
    """Return the tensors with the floating-point ones converted."""
    return {place: widened_tensor(tensor, dtype) for place, tensor in tensors.items()}


def widened_tensor(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the tensor in `dtype`, or the complex dtype of that precision; integers stay."""
    if tensor.is_complex():
        return tensor.to(torch.complex128 if dtype is torch.float64 else torch.complex64)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _wider(argument: Json, dtype: str) -> Json:
    if isinstance(argument, list):
        return [_wider(item, dtype) for item in argument]
    if isinstance(argument, dict) and (named := argument.get("dtype")) in (*_FLOATS, *_COMPLEX):
        complex_dtype = "complex128" if dtype == "float64" else "complex64"
        return {"dtype": complex_dtype if named in _COMPLEX else dtype}
    return argument


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
