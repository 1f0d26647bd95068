"""Calculates one call of a run on the CPU in another precision, beside the call itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from jumar.capture.notes.operators import operator_info
from jumar.comparison.bisect.units import How
from jumar.comparison.replay.rebuilt.execute import FAILURES
from jumar.comparison.replay.rebuilt.place import WIDER, Precision
from jumar.comparison.replay.rebuilt.substitutes import SUBSTITUTES
from jumar.operators import has

Operator = torch._ops.OpOverload

PRECISION: dict[How, Precision] = {"cpu": "own", "float32": "float32", "float64": "float64"}


@lru_cache(maxsize=4096)
def can_switch(operator: torch._ops.OpOverload) -> bool:
    """Return whether an operator calculates something that another precision may improve.

    Views, random numbers, collectives and what runs on the vendor's device only are left alone.
    """
    info = operator_info(operator)
    if info.collective or not info.name.startswith("aten::"):
        return False
    if has(info.name, "draws"):
        return False
    returns = operator._schema.returns
    is_view = any(item.alias_info is not None and not item.alias_info.is_write for item in returns)
    return bool(returns or info.writes) and not is_view


class Failed(Exception):
    """The call could not be made on the CPU; the message says why."""


def better(
    operator: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], how: How
) -> list[torch.Tensor]:
    """Return what the call writes and returns, calculated on the CPU from copies. Raises Failed."""
    wider = WIDER[PRECISION[how]]

    def to_host(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _copy(value, wider)
        if isinstance(value, (list, tuple)):
            return type(value)(to_host(item) for item in value)
        if isinstance(value, torch.dtype):
            return wider.get(str(value).removeprefix("torch."), value)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    info = operator_info(operator)
    there_args, there_kwargs = to_host(args), {name: to_host(value) for name, value in kwargs.items()}
    there_kwargs.pop("pin_memory", None)
    if "half_to_float" in info.names and how != "cpu":
        there_args = tuple(
            False if name == "half_to_float" else value for name, value in zip(info.names, there_args, strict=False)
        )
    try:
        substitute = SUBSTITUTES.get(info.name.partition(".")[0])
        if substitute is not None:
            result: Any = substitute(**dict(zip(info.names, there_args, strict=False)), **there_kwargs)
        else:
            result = operator(*there_args, **there_kwargs)
    except FAILURES as error:
        raise Failed(f"{info.name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error
    return list(results(operator, there_args, there_kwargs, result))


def _copy(tensor: torch.Tensor, wider: dict[str, torch.dtype]) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Failed(f"a {tensor.layout} tensor is not switched")
    dtype = wider.get(str(tensor.dtype).removeprefix("torch."), tensor.dtype)
    return tensor.detach().to(device="cpu", dtype=dtype, copy=True)


def results(
    operator: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Iterator[Any]:
    """Yield the tensors that a call wrote, then those it returned, in order; the same for any device."""
    info = operator_info(operator)
    yield from _flat(info.written(args, kwargs))
    yield from _flat(result)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor) or value is None:
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)


def put(values: list[Any], into: list[Any]) -> None:
    """Write the values into the run's own tensors of the same place and shape."""
    done: set[int] = set()
    for value, own in zip(values, into, strict=False):
        if value is None or own is None or value.shape != own.shape or id(own) in done or not own.is_floating_point():
            continue
        done.add(id(own))
        own.detach().copy_(value.to(own.dtype))
