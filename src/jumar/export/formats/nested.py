"""`plain`: a value of a checkpoint as tensors, containers, numbers and texts, which `torch.load` takes without code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from jumar.base.errors import InputError
from jumar.export.tensors import Deferred, Unusable, held

MOST_VALUES = 10_000_000
"""So many values are kept. A list that holds one list many times is a small file, and many values."""
_DEEPEST = 100
_SCALARS = (str, bytes, int, float, complex, torch.dtype)


def plain(value: Any, name: str = "") -> Any:
    """Return a value as plain ones; attributes of an object become a mapping, arrays tensors.

    Raises InputError, with the path of the value, for one that is neither tensor nor plain.
    """
    return _Plain().of(value, name, 0)


class _Plain:
    def __init__(self) -> None:
        self.num_values = 0

    def of(self, value: Any, name: str, depth: int) -> Any:
        self.num_values += 1
        if self.num_values > MOST_VALUES or depth > _DEEPEST:
            raise InputError(f"{name or 'the file'} holds too many values to keep; leave out --with-state.")
        if value is None or isinstance(value, (*_SCALARS, Deferred)):
            return value
        if isinstance(value, Unusable):
            value.refuse(name)
        if isinstance(value, torch.Tensor):
            return held(value)
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, dict):
            return {key: self.of(item, f"{name}.{key}" if name else str(key), depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.of(item, f"{name}.{at}" if name else str(at), depth + 1) for at, item in enumerate(value)]
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, (set, frozenset)):
            return set(value)
        kind = getattr(value, "name", None) or type(value).__name__
        raise InputError(f"{name!r} is {kind}, neither a tensor nor a plain value; leave out --with-state.")


def leaves(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the values that are no containers, with their ways; an empty container is one of them."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*way, key))
    elif isinstance(value, (list, tuple)) and value:
        for at, item in enumerate(value):
            yield from leaves(item, (*way, at))
    else:
        yield way, value


def without(root: Any, way: str) -> Any:
    """Return `root` without what is at the dotted path `way`, and without mappings that are empty then."""
    for key in root:
        if isinstance(key, str) and (way == key or way.startswith(f"{key}.")):
            rest = {other: item for other, item in root.items() if other != key}
            if way == key:
                return rest
            inner = without(root[key], way[len(key) + 1 :])
            return {**rest, key: inner} if inner else rest
    return root
