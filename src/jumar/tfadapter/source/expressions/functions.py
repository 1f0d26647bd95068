"""`call_value`: what a call of a plain function gives, where its arguments are known: `tf.compat.as_bytes`, `str`."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from jumar.tfadapter.options import UNKNOWN

_SAME_TEXT = frozenset({"as_bytes", "as_str", "as_text", "as_str_any"})
"""Functions of `tf.compat` that give their argument back in another type."""
_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "str": str, "int": int, "float": float, "bool": bool, "repr": repr, "list": list, "tuple": tuple, "sorted": sorted,
}  # fmt: skip
_LISTS: Mapping[str, Callable[..., list[Any]]] = {
    "zip": lambda *lists: list(zip(*lists, strict=False)),
    "enumerate": lambda items, *start: list(enumerate(items, *start)),
}
_METHODS = frozenset({"lower", "upper", "strip", "rstrip", "lstrip", "replace"})
_WIDE = re.compile(r"\d{4}")


def call_value(node: ast.Call, value: Callable[[ast.expr | None], Any]) -> Any:
    """Return the value of a call, or UNKNOWN. May raise what the function itself raises."""
    arguments = [value(argument) for argument in node.args]
    words = {word.arg: value(word.value) for word in node.keywords if word.arg is not None}
    if any(has_unknown(one) for one in arguments) or len(words) < len(node.keywords):
        return UNKNOWN
    if isinstance(node.func, ast.Name):
        return _plain(node.func.id, arguments, words)
    return _method(node.func, arguments, words, value) if isinstance(node.func, ast.Attribute) else UNKNOWN


def _plain(name: str, arguments: list[Any], words: dict[str, Any]) -> Any:
    if name == "dict" and len(arguments) <= 1:
        return dict(arguments[0]) | words if arguments else words
    if words or not arguments:
        return UNKNOWN
    first = arguments[0]
    if name in _CONVERSIONS and len(arguments) == 1:
        return _CONVERSIONS[name](first)
    if name == "as_bytes" or (name == "bytes" and isinstance(first, (str, bytes))):
        return as_bytes(first)
    are_lists = all(isinstance(one, (list, tuple)) for one in arguments)
    return _LISTS[name](*arguments) if name in _LISTS and are_lists else UNKNOWN


def as_bytes(value: Any) -> Any:
    """Return a text as bytes, another value as it is."""
    return value.encode() if isinstance(value, str) else value


def _method(
    function: ast.Attribute, arguments: list[Any], words: dict[str, Any], value: Callable[[ast.expr | None], Any]
) -> Any:
    name, first = function.attr, arguments[0] if arguments else UNKNOWN
    if name in _SAME_TEXT:
        return as_bytes(first) if name == "as_bytes" else first
    if name == "join" and ast.unparse(function.value).endswith("path"):
        return posixpath.join(*arguments) if all(isinstance(one, str) for one in arguments) else UNKNOWN
    if name == "dumps" and not words and arguments:
        return json.dumps(first)
    owner = value(function.value)
    if has_unknown(owner):
        return UNKNOWN
    return _of_value(owner, name, arguments, words)


def _of_value(owner: Any, name: str, arguments: list[Any], words: dict[str, Any]) -> Any:
    """Return what a method of a known value gives."""
    found: Any = UNKNOWN
    if isinstance(owner, str):
        found = _of_text(owner, name, arguments, words)
    elif isinstance(owner, bytes) and name == "decode":
        found = owner.decode()
    elif isinstance(owner, dict) and not words:
        if name == "get" and arguments:
            found = owner.get(*arguments)
        elif name in ("items", "keys", "values") and not arguments:
            found = list(getattr(owner, name)())
        elif name == "copy":
            found = dict(owner)
    return found


def _of_text(owner: str, name: str, arguments: list[Any], words: dict[str, Any]) -> Any:
    found: Any = UNKNOWN
    if name == "encode":
        found = owner.encode()
    elif name == "format" and not _WIDE.search(owner) and not any(has_unknown(one) for one in words.values()):
        found = owner.format(*arguments, **words)
    elif name == "join" and arguments:
        found = owner.join(arguments[0])
    elif name in _METHODS and not words:
        found = getattr(owner, name)(*arguments)
    return found


def formatted(value: Any, conversion: int, how: Any) -> Any:
    """Return a part of an f-string: its value after `!r` and `:d`."""
    if has_unknown(value) or not isinstance(how, str) or _WIDE.search(how):
        return UNKNOWN
    shown: Mapping[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
    return format(shown[conversion](value) if conversion in shown else value, how)


def percent(left: str | bytes, right: Any) -> Any:
    """Return `left % right`."""
    text = left if isinstance(left, str) else left.decode("latin-1")
    if has_unknown(right) or _WIDE.search(text):
        return UNKNOWN
    return left % right


def has_unknown(value: Any) -> bool:
    """Tell whether a value, or a part of it, is not known."""
    if isinstance(value, dict):
        return any(has_unknown(one) for pair in value.items() for one in pair)
    return value is UNKNOWN or (isinstance(value, (list, tuple)) and any(has_unknown(one) for one in value))
