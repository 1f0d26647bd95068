"""Operators that write their argument, for `torch.compile` and `torch.func.functionalize`.

PyTorch replaces a write by the functional operator and a new value, for its own operators only; the vendor
registers the same for its own. Here every operator `x_` that has a twin `x` of the same arguments gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from jumar.device.emulator.custom.schemas import NAMESPACE, Schema, schemas

_KEY = "Functionalize"
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)


def pairs() -> Iterator[tuple[Schema, Schema]]:
    """Yield each operator that writes its first argument and returns it, with its functional twin."""
    for schema in schemas().values():
        twin = schemas().get(schema.base.removesuffix("_"))
        if schema.name.endswith("_") and twin is not None and _is_twin(schema, twin):
            yield schema, twin


def _is_twin(schema: Schema, twin: Schema) -> bool:
    first = schema.parsed.arguments[0].name
    return schema.written == (first,) and len(schema.parsed.returns) == 1 and _types(schema) == _types(twin)


def _types(schema: Schema) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in schema.parsed.arguments]


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and torch._is_functional_tensor(value):
        torch._sync(value)  # type: ignore[no-untyped-call, attr-defined]
        return torch._from_functional_tensor(value)
    return value


def _replacing(twin: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes the new value with `twin` and puts it in the place of the first argument."""

    def kernel(target: Any, *args: Any, **kwargs: Any) -> Any:
        given, named = tree_map(_plain, ((target, *args), kwargs))
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            result = twin(*given, **named)
        if not torch._is_functional_tensor(target):
            return target.copy_(result)
        torch._functionalize_replace(target, result)
        torch._functionalize_commit_update(target)
        torch._functionalize_sync(target)
        return target

    return kernel


def register(library: Any) -> None:
    """Register the kernels of all pairs; the operators must have been defined."""
    for schema, twin in pairs():
        functional = getattr(getattr(torch.ops, NAMESPACE), twin.name).default
        library.impl(schema.name, _KEY, _replacing(functional), False)
