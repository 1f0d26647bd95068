"""The inputs of a task or a graph: real values where there are some, else random ones of the recorded scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Work
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Function, TensorSpec

Values = Mapping[int, torch.Tensor]
"""Real tensors by their place among the inputs: what a data file holds."""

REAL_SEED = 0
"""With this seed variable inputs have their real values, where there are some."""
_CONSTANTS_SEED = 7
RESTORED_BYTES = 1 << 14
"""Greatest written input whose value is put back between measured calls: a copy of this size takes 1 us."""
_TURNED_SHARE, _LEAST_OF_MASKS = 0.125, 8
_LOOK_UP = "aten::embedding"
_READERS_OF_ROWS = frozenset({_LOOK_UP, "aten::eq", "aten::ne"})
"""What may read numbers of rows without making other numbers of them."""


def make_inputs(work: Work, seed: int, values: Values | None = None) -> list[torch.Tensor]:
    """Return the variable inputs on the CPU, in order; equal seeds give equal values.

    With `values`, seed 0 gives the real ones, and other seeds draw their elements from them, so that integers and
    masks stay within what the model takes; where they are all equal, which would not show an engine that ignores them
    or mixes them up, others are drawn that the model takes as well (`_others_than`). Raises TuneError for a dtype that
    random values cannot be made of.
    """
    generator = torch.Generator().manual_seed(seed)
    return [
        _make(
            name, spec, generator, (values or {}).get(place), is_real=seed == REAL_SEED,
            num_rows=partial(_num_rows, work, place),
        )
        for place, (name, spec) in enumerate(work.tensors.items())
        if not spec.constant
    ]  # fmt: skip


def make_constants(work: Work, values: Values | None = None) -> dict[int, torch.Tensor]:
    """Return the weights by their place: the real ones, and random ones for those that `values` has not."""
    generator = torch.Generator().manual_seed(_CONSTANTS_SEED)
    known = values or {}
    return {
        place: known[place] if place in known else _make(name, spec, generator, None, is_real=False)
        for place, (name, spec) in enumerate(work.tensors.items())
        if spec.constant
    }


def refill(tensors: list[torch.Tensor], work: Work, seed: int, values: Values | None = None) -> None:
    """Give `tensors` the values of another seed, in place: memory and strides stay."""
    for tensor, fresh in zip(tensors, make_inputs(work, seed, values), strict=True):
        overwrite(tensor, fresh)


def overwrite(tensor: torch.Tensor, fresh: torch.Tensor) -> None:
    """Copy `fresh` into `tensor`, which may hold elements of memory several times over (expanded)."""
    if 0 in tensor.stride() and tensor.numel():
        for dimension, stride in enumerate(tensor.stride()):
            if stride == 0:
                tensor, fresh = tensor.narrow(dimension, 0, 1), fresh.narrow(dimension, 0, 1)
    tensor.copy_(fresh)


NOT_FINITE = ("NaN", "Inf")
"""What `put_not_finite` puts among numbers; `Inf` stands for both infinities."""


def put_not_finite(tensor: torch.Tensor, kind: str) -> None:
    """Put NaN at one place of a floating-point tensor, or Inf at one and -Inf at another, in place."""
    values = [float("nan")] if kind == "NaN" else [float("inf"), float("-inf")]
    for number, value in enumerate(values, 1):
        place, index = number * tensor.numel() // (len(values) + 1), []
        for length in reversed(tensor.shape):
            place, inner = divmod(place, length)
            index.append(inner)
        tensor[tuple(reversed(index))] = value


def repeated(function: Function, tensors: Sequence[torch.Tensor], written: Sequence[int]) -> Callable[[], Any]:
    """Return a call that can be made any number of times: small inputs that it writes to are put back after it.

    A counter or a place in a cache would leave its range. Large ones (caches) keep what was written: putting them
    back would cost more than what is measured.
    """
    small = [(tensors[place], tensors[place].clone()) for place in written if tensors[place].nbytes <= RESTORED_BYTES]
    if not small:
        return partial(function, *tensors)

    def call() -> Any:
        result = function(*tensors)
        for tensor, value in small:
            overwrite(tensor, value)
        return result

    return call


def _make(
    name: str, spec: TensorSpec, generator: torch.Generator, real: torch.Tensor | None, *, is_real: bool,
    num_rows: Callable[[], int] = int,
) -> torch.Tensor:  # fmt: skip
    dtype = getattr(torch, spec.dtype, None)
    if not isinstance(dtype, torch.dtype) or (dtype.is_complex and real is None):
        raise TuneError(f"{name} has dtype {spec.dtype}, of which no random input is made.")
    if not all(spec.shape):
        return torch.empty_strided(spec.shape, spec.stride, dtype=dtype)
    size = 1 + sum((length - 1) * step for length, step in zip(spec.shape, spec.stride, strict=True))
    if real is not None and is_real:
        made = torch.zeros(size, dtype=dtype).as_strided(spec.shape, spec.stride)
        overwrite(made, real)
        return made
    flat = _values(spec, dtype, size, generator) if real is None else _drawn(real, size, generator, num_rows)
    return torch.as_strided(flat, spec.shape, spec.stride)


def _drawn(real: torch.Tensor, size: int, generator: torch.Generator, num_rows: Callable[[], int]) -> torch.Tensor:
    """Return elements of `real` drawn with replacement, others where they are all equal."""
    elements = real.reshape(-1)
    if bool((elements == elements[0]).all()):
        others = _others_than(real, size, generator, num_rows)
        if others is not None:
            return others
    return elements[torch.randint(elements.numel(), (size,), generator=generator)]


def _others_than(
    real: torch.Tensor, size: int, generator: torch.Generator, num_rows: Callable[[], int]
) -> torch.Tensor | None:
    """Return what may stand in the place of equal elements; None where nobody knows.

    Floating-point numbers are spread around their value. Of a mask one element in eight is turned over, where its rows
    are so long that none is likely to be turned over as a whole. Numbers of rows of a table (`num_rows` of them) are
    drawn from all.
    """
    if real.is_floating_point():
        value = float(real.reshape(-1)[0])
        around = torch.rand(size, generator=generator) + 0.5 if value else torch.randn(size, generator=generator)
        return (around * (value or 1.0)).to(real.dtype)
    if real.dtype is torch.bool:
        is_long = real.dim() > 0 and real.shape[-1] >= _LEAST_OF_MASKS
        return (torch.rand(size, generator=generator) < _TURNED_SHARE) ^ real.reshape(-1)[0] if is_long else None
    rows = 0 if real.is_complex() else num_rows()
    return torch.randint(rows, (size,), generator=generator).to(real.dtype) if rows else None


def _num_rows(work: Work, place: int) -> int:
    """Return how many rows the tables have that an input looks up; 0 where it is more than the number of a row."""
    if not isinstance(work, Graph):
        return 0
    readers = [node for node in work.nodes if place in node.references()]
    if not all(node.operator.partition(".")[0] in _READERS_OF_ROWS for node in readers):
        return 0
    tables = [work.spec_of(next(node.references())) for node in readers if node.operator == _LOOK_UP]
    return min((spec.shape[0] for spec in tables if spec is not None and spec.shape), default=0)


def _values(spec: TensorSpec, dtype: torch.dtype, size: int, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.rand(size, generator=generator) < (0.5 if spec.mean is None else spec.mean)
    if not dtype.is_floating_point:
        low, high = int(spec.minimum or 0), int(spec.maximum or 0)
        return torch.randint(low, max(high, low) + 1, (size,), generator=generator).to(dtype)
    mean, spread = _scale(spec)
    drawn = torch.randn(size, generator=generator) * spread + mean
    # What is never negative (a variance) has a reason for it.
    return (drawn.abs() if spec.minimum is not None and spec.minimum >= 0 else drawn).to(dtype)


def _scale(spec: TensorSpec) -> tuple[float, float]:
    """Return mean and standard deviation.

    A constant tensor (a bias of zeros) still gets a spread: a provider that forgets it must be seen.
    """
    if spec.mean is None or spec.rms is None or not math.isfinite(spec.rms):
        return 0.0, 1.0
    spread = math.sqrt(max(spec.rms**2 - spec.mean**2, 0.0))
    return spec.mean, spread if spread > 1e-6 * spec.rms and spread > 0 else abs(spec.mean) or 1.0
