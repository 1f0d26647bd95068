"""How values are nested: what a model takes and returns, taken apart into flat values and put together again.

PyTorch's own description of a nesting names Python classes, which another process may not have. Here it is JSON:

    null                                  a flat value
    {"value": 3}                          a number or text that is the same in every call
    {"tuple": […]}  {"list": […]}         further nestings
    {"dict": ["key", …], "items": […]}
    {"named": ["module", "Class"], "fields": ["name", …], "items": […]}
    {"data": ["module", "Class"], "fields": ["name", …], "empty": ["name", …], "items": […]}
    {"other": "…"}                        PyTorch's own, for classes that are registered with it

A named tuple or dataclass whose module is not imported where it is rebuilt becomes one of the same name and fields.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from jumar.findings import Json
from jumar.tune.errors import TuneError

_LEAF = 0


class Nesting:
    """A nesting that values are put into. `described` is what `describe` returned."""

    def __init__(self, described: Json) -> None:
        self._described = described
        self.fixed: list[tuple[int, Any]] = []
        """Places and values of the flat values that are the same in every call."""
        self.spec = pytree.tree_flatten(_example(described, self.fixed, iter(range(_count(described)))))[1]

    def filled(self, values: Iterable[Any]) -> Any:
        """Return the nesting of these values, in order."""
        leaves = list(values)
        for place, value in self.fixed:
            leaves.insert(place, value)
        return pytree.tree_unflatten(leaves, self.spec)

    def fits(self, spec: pytree.TreeSpec) -> bool:
        """Tell whether values are nested like this, in classes of the same fields."""
        return bool(spec == self.spec) or _bare(describe(spec)) == _bare(self._described)


def describe(spec: pytree.TreeSpec, fixed: Mapping[int, Any] | None = None) -> Json:
    """Return a nesting of PyTorch's as JSON; `fixed` are flat values, by place, that are the same in every call.

    Raises TuneError for a class that can neither be described nor is registered for it.
    """
    return _described(spec, iter(range(spec.num_leaves)), fixed or {})


def flat(value: Any) -> list[Any]:
    """Return the flat values of a nesting, None among them."""
    return pytree.tree_leaves(value, is_leaf=lambda leaf: leaf is None)


def register_dataclasses(value: Any) -> None:
    """Let PyTorch take apart the dataclasses in a value: models return them, and PyTorch refuses those it has not met.

    Raises TuneError for one that it does not take.
    """
    while strange := {type(leaf) for leaf in flat(value) if _is_dataclass(leaf)}:
        for kind in strange:
            try:
                torch.export.register_dataclass(kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}")
            except (ValueError, TypeError, AssertionError) as error:
                raise TuneError(
                    f"the model's {kind.__name__} cannot be taken apart: {error}; return a tuple."
                ) from error


def _bare(described: Json) -> Json:
    """Return a nesting without its values and the homes of its classes."""
    if not isinstance(described, dict) or "value" in described:
        return None
    if "other" in described:
        return described
    items: list[Json] = [_bare(item) for item in _items(described)]
    kind = next(iter(described))
    kept = {name: described[name] for name in ("dict", "fields", "empty") if name in described}
    return {"kind": kind, "items": items} | kept


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _described(spec: pytree.TreeSpec, places: Any, fixed: Mapping[int, Any]) -> Json:
    if spec.is_leaf():
        place = next(places)
        return {"value": fixed[place]} if place in fixed else None
    kind, context = spec.type, spec.context
    if _is_other(kind):
        return _serialised(spec, places)
    items: list[Json] = [_described(child, places, fixed) for child in spec.children()]
    if kind in {tuple, list}:
        return {kind.__name__: items}
    if kind in {dict, OrderedDict}:
        return {"dict": list(context), "items": items}
    if kind is namedtuple:
        return {"named": _home(context), "fields": list(context._fields), "items": items}
    names, empty = context
    return {"data": _home(kind), "fields": list(names), "empty": list(empty), "items": items}


def _is_other(kind: Any) -> bool:
    return kind not in {tuple, list, dict, OrderedDict, namedtuple} and not (
        dataclasses.is_dataclass(kind) and not issubclass(kind, Mapping)
    )


def _serialised(spec: pytree.TreeSpec, places: Any) -> Json:
    try:
        text = pytree.treespec_dumps(spec)
    except (NotImplementedError, ValueError, TypeError) as error:
        raise TuneError(
            f"the model takes or returns a {getattr(spec.type, '__name__', spec.type)}, of which no description can be "
            "kept; use tuples, lists, dictionaries or dataclasses."
        ) from error
    for _ in range(spec.num_leaves):
        next(places)
    return {"other": text}


def _home(kind: type) -> Json:
    return [kind.__module__, kind.__qualname__]


def _count(described: Json) -> int:
    if not isinstance(described, dict):
        return 1
    if "other" in described:
        return int(pytree.treespec_loads(str(described["other"])).num_leaves)
    if "value" in described:
        return 1
    return sum(map(_count, _items(described)))


def _items(described: Mapping[str, Json]) -> Sequence[Json]:
    found = described.get("items", described.get("tuple", described.get("list")))
    assert isinstance(found, list)
    return found


def _example(described: Json, fixed: list[tuple[int, Any]], places: Any) -> Any:
    """Return values that are nested like this, and note the places of those that never change."""
    if not isinstance(described, dict):
        next(places)
        return _LEAF
    if "value" in described:
        fixed.append((next(places), described["value"]))
        return _LEAF
    if "other" in described:
        spec = pytree.treespec_loads(str(described["other"]))
        return pytree.tree_unflatten([next(places) for _ in range(spec.num_leaves)], spec)
    items = [_example(item, fixed, places) for item in _items(described)]
    if "tuple" in described or "list" in described:
        return tuple(items) if "tuple" in described else items
    if "dict" in described:
        return dict(zip(_names(described["dict"]), items, strict=True))
    fields = tuple(map(str, _names(described["fields"])))
    if "named" in described:
        return _named(*_pair(described["named"]), fields)(*items)
    empty = tuple(map(str, _names(described["empty"])))
    made = object.__new__(_data(*_pair(described["data"]), fields, empty))
    for name, item in [*zip(fields, items, strict=True), *((name, None) for name in empty)]:
        object.__setattr__(made, name, item)
    return made


def _names(value: Json) -> list[Any]:
    assert isinstance(value, list)
    return value


def _pair(value: Json) -> tuple[str, str]:
    module, name = _names(value)
    return str(module), str(name)


@functools.cache
def _named(module: str, name: str, fields: tuple[str, ...]) -> Any:
    found = _imported(module, name)
    return found if getattr(found, "_fields", None) == fields else namedtuple(name.rpartition(".")[2], fields)  # noqa: PYI024 - its fields are data


@functools.cache
def _data(module: str, name: str, fields: tuple[str, ...], empty: tuple[str, ...]) -> Any:
    found = _imported(module, name)
    if not dataclasses.is_dataclass(found) or not {*fields, *empty} <= {one.name for one in dataclasses.fields(found)}:
        found = dataclasses.make_dataclass(name.rpartition(".")[2], [*fields, *empty])
    assert isinstance(found, type)
    if found not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(found)
    return found


def _imported(module: str, name: str) -> Any:
    """Return a class of a module that is imported already: an artefact imports nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
