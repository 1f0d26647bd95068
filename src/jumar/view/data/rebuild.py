"""Makes results of their saved JSON again: `rebuilt` for dataclasses, `page_from` for a page with its blocks."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jumar.base.errors import InputError
from jumar.base.findings import Finding
from jumar.show.blocks import page as page_blocks
from jumar.show.blocks import pictures
from jumar.show.blocks.documents import BLOCK_KINDS
from jumar.show.blocks.page import Action, Block, Page, Section, Verdict

T = TypeVar("T")
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_CLASSES = {kind: block for block, kind in BLOCK_KINDS.items()}
_NAMES = {**vars(page_blocks), **vars(pictures)}


class ForeignError(InputError):
    """A saved document has not the form that Jumar gives it."""


def rebuilt(kind: type[T], data: Any) -> T:
    """Return the dataclass of its JSON form. Fields that it does not know are left out. Raises ForeignError."""
    made = _value(kind, data, kind.__name__)
    assert isinstance(made, kind)
    return made


def page_from(data: Mapping[str, Any]) -> Page:
    """Return the page of `page_json`; blocks of unknown kinds are left out. Raises ForeignError."""
    try:
        return Page(
            title=str(data["title"]),
            verdict=rebuilt(Verdict, data["verdict"]),
            actions=[rebuilt(Action, one) for one in data["actions"]],
            sections=[_section(one) for one in data["sections"]],
            footer=str(data.get("footer", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ForeignError(f"the saved page has not the form of a page ({error!r:.120}).") from error


def _section(data: Mapping[str, Any]) -> Section:
    blocks: list[Block] = [
        _value(_CLASSES[one["kind"]], one, one["kind"]) for one in data["blocks"] if one.get("kind") in _CLASSES
    ]
    return Section(title=str(data["title"]), blocks=blocks, collapsed=bool(data.get("collapsed", False)))


def _value(hint: Any, data: Any, where: str) -> Any:
    """Return a JSON value as a declared type wants it."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Finding:
        return _finding(data)
    if is_dataclass(hint):
        return _dataclass(hint, data, where)
    if origin in (Union, types.UnionType):
        return _one_of(inner, data, where)
    if origin is None or origin is Literal:
        return _plain(hint, inner, data, where)
    return _collection(origin, inner, data, where)


def _finding(data: Any) -> Finding:
    try:
        return Finding.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ForeignError(f"a finding has not the form of one ({error!r:.120}).") from error


def _dataclass(hint: Any, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise ForeignError(f"{where} must be an object.")
    hints, given = _hints(hint), {}
    for field in fields(hint):
        if field.name in data:
            given[field.name] = _value(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ForeignError(f'{where} has no "{field.name}".')
    try:
        return hint(**given)
    except ValueError as error:
        raise ForeignError(f"{where} is damaged: {error}.") from error


def _one_of(kinds: Sequence[Any], data: Any, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    problem = ForeignError(f"{where} has another type than it must.")
    for kind in kinds:
        if kind is not type(None):
            try:
                return _value(kind, data, where)
            except ForeignError as error:
                problem = error
    raise problem


def _plain(hint: Any, choices: Sequence[Any], data: Any, where: str) -> Any:
    if hint is float and isinstance(data, str) and data in _NUMBERS:
        return _NUMBERS[data]
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    is_right = data in choices if choices else hint is Any or _is(data, hint)
    if not is_right:
        raise ForeignError(f"{where} has another type than it must.")
    return data


def _is(data: Any, hint: Any) -> bool:
    """Tell whether a value is of a class; True and False are no numbers."""
    return isinstance(data, hint) and not (isinstance(data, bool) and hint in (int, float))


def _collection(origin: Any, inner: Sequence[Any], data: Any, where: str) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise ForeignError(f"{where} must be an object.")
        return {key: _value(inner[1], one, f"{where}.{key}") for key, one in data.items()}
    if not isinstance(data, list):
        raise ForeignError(f"{where} must be a list.")
    if origin is tuple and inner[1:] != (Ellipsis,):
        if len(inner) != len(data):
            raise ForeignError(f"{where} must have {len(inner)} values.")
        return tuple(_value(kind, one, where) for kind, one in zip(inner, data, strict=True))
    return tuple(_value(inner[0], one, where) for one in data)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, _NAMES if kind.__module__.startswith("jumar.show") else None)
