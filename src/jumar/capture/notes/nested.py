"""`named_values`: the tensors in what a call takes or gives, by name. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

Value = TypeVar("Value")


def named_values(prefix: str, value: Any, kind: type[Value], depth: int = 4) -> Iterator[tuple[str, Value]]:
    """Yield (name, value) of the values of a `kind` in nested tuples, lists and dictionaries: `input.2.1`,
    `output.logits`."""
    if isinstance(value, kind):
        yield prefix, value
    elif depth and isinstance(value, (tuple, list)):
        for position, item in enumerate(value):
            yield from named_values(f"{prefix}.{position}", item, kind, depth - 1)
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from named_values(f"{prefix}.{key}", item, kind, depth - 1)
