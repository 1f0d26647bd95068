"""How values are nested: what a model takes and returns, taken apart into flat values and put together again.

PyTorch's own description of a nesting names Python classes, which another process may not have. Here it is JSON:

    null                                  a flat value
    {"value": 3}                          a number, text or nothing, the same in every call
    {"argument": 0}                       a flat argument, handed back as it is
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from jumar.base.findings import Json
from jumar.tune.model.errors import TuneError

_LEAF = 0


class Nesting:
    """A nesting that values are put into. `described` is what `describe` returned."""

    def __init__(self, described: Json) -> None:
        self._described = described
        leaves: list[Json] = []
        self.spec = pytree.tree_flatten(_example(described, leaves))[1]
        known = [(place, leaf) for place, leaf in enumerate(leaves) if isinstance(leaf, dict)]
        self.fixed = [(place, leaf["value"]) for place, leaf in known if "value" in leaf]
        """Places and values of the flat values that are the same in every call."""
        self._passed = {place: int(str(leaf["argument"])) for place, leaf in known if "argument" in leaf}
        self._known = dict(self.fixed)

    def filled(self, values: Iterable[Any], arguments: Sequence[Any] = ()) -> Any:
        """Return the nesting of these values, in order, and of what is known without them."""
        if not self._known and not self._passed:
            return pytree.tree_unflatten(list(values), self.spec)
        others = iter(values)
        leaves = [
            arguments[self._passed[place]]
            if place in self._passed
            else self._known[place]
            if place in self._known
            else next(others)
            for place in range(self.spec.num_leaves)
        ]
        return pytree.tree_unflatten(leaves, self.spec)

    def fits(self, spec: pytree.TreeSpec) -> bool:
        """Tell whether values are nested like this, in classes of the same fields."""
        return bool(spec == self.spec) or _bare(describe(spec)) == _bare(self._described)


def describe(
    spec: pytree.TreeSpec, fixed: Mapping[int, Any] | None = None, passed: Mapping[int, int] | None = None
) -> Json:
    """Return a nesting of PyTorch's as JSON.

    `fixed` are flat values, by place, that are the same in every call, `passed` the arguments that are handed back.
    Raises TuneError for a class that can neither be described nor is registered for it.
    """
    leaves: list[Json] = [None] * spec.num_leaves
    for place, value in (fixed or {}).items():
        leaves[place] = {"value": value}
    for place, argument in (passed or {}).items():
        leaves[place] = {"argument": argument}
    return _described(spec, iter(leaves))


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
    if _is_leaf(described):
        return None
    assert isinstance(described, dict)
    if "other" in described:
        return described["other"]
    items: list[Json] = [_bare(item) for item in _items(described)]
    kind = next(iter(described))
    names: list[Json] = [described.get(name) for name in ("dict", "fields", "empty")]
    return {"kind": kind, "items": items, "names": names}


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _described(spec: pytree.TreeSpec, leaves: Iterator[Json]) -> Json:
    if spec.is_leaf():
        return next(leaves)
    kind, context = spec.type, spec.context
    if _is_other(kind):
        return _serialised(spec, leaves)
    items: list[Json] = [_described(child, leaves) for child in spec.children()]
    if kind in {tuple, list}:
        return {kind.__name__: items}
    if kind in {dict, OrderedDict}:
        if strange := [key for key in context if not isinstance(key, (str, int, float, bool, type(None)))]:
            raise TuneError(
                f"the model takes or returns a dictionary with the key {strange[0]!r}, of which no description can be "
                "kept; use text or numbers."
            )
        return {"dict": list(context), "items": items}
    if kind is namedtuple:
        return {"named": _home(context), "fields": list(context._fields), "items": items}
    names, empty = context
    return {"data": _home(kind), "fields": list(names), "empty": list(empty), "items": items}


def _is_other(kind: Any) -> bool:
    if kind in {tuple, list, dict, OrderedDict, namedtuple}:
        return False
    return issubclass(kind, Mapping) or not dataclasses.is_dataclass(kind)


def _serialised(spec: pytree.TreeSpec, leaves: Iterator[Json]) -> Json:
    inside = [next(leaves) for _ in range(spec.num_leaves)]
    try:
        text = pytree.treespec_dumps(spec)
    except (NotImplementedError, ValueError, TypeError) as error:
        raise TuneError(
            f"the model takes or returns a {getattr(spec.type, '__name__', spec.type)}, of which no description can be "
            "kept; use tuples, lists, dictionaries or dataclasses."
        ) from error
    return {"other": text, "leaves": inside}


def _home(kind: type) -> Json:
    return [kind.__module__, kind.__qualname__]


def _items(described: Mapping[str, Json]) -> Sequence[Json]:
    found = described.get("items", described.get("tuple", described.get("list")))
    assert isinstance(found, list)
    return found


def _example(described: Json, leaves: list[Json]) -> Any:
    """Return values that are nested like this, and note what is known of each flat one, in order."""
    if _is_leaf(described):
        leaves.append(described)
        return _LEAF
    assert isinstance(described, dict)
    if "other" in described:
        leaves.extend(_names(described["leaves"]))
        spec = pytree.treespec_loads(str(described["other"]))
        return pytree.tree_unflatten([_LEAF] * spec.num_leaves, spec)
    return _nested(described, [_example(item, leaves) for item in _items(described)])


def _is_leaf(described: Json) -> bool:
    return not isinstance(described, dict) or "value" in described or "argument" in described


def _nested(described: Mapping[str, Json], items: list[Any]) -> Any:
    if "tuple" in described:
        return tuple(items)
    if "list" in described:
        return items
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


def _named(module: str, name: str, fields: tuple[str, ...]) -> Any:
    found = _imported(module, name)
    return found if getattr(found, "_fields", None) == fields else _named_like(name.rpartition(".")[2], fields)


@functools.cache
def _named_like(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def _data(module: str, name: str, fields: tuple[str, ...], empty: tuple[str, ...]) -> Any:
    found = _imported(module, name)
    if not dataclasses.is_dataclass(found) or not {*fields, *empty} <= {one.name for one in dataclasses.fields(found)}:
        found = _data_like(name.rpartition(".")[2], (*fields, *empty))
    assert isinstance(found, type)
    if found not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(found)
    return found


@functools.cache
def _data_like(name: str, fields: tuple[str, ...]) -> Any:
    return dataclasses.make_dataclass(name, fields)


def _imported(module: str, name: str) -> Any:
    """Return a class of a module that is imported already: an artefact imports nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
